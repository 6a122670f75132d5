// `partlog create-topic`
#include <algorithm>

#include "messages.h"
#include "output.h"
#include "text.h"
#include "topic_commands.h"

namespace partlog::cmd {
namespace {

class CreateTopic : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(names_, "topic", 1);
    options.number("-p,--partitions", "N", partitions_, "how many partitions (default 1); fixed for the topic's life", 1,
                   100'000);
    options.list("-c,--config", "NAME=VALUE", settings_, "set a configuration value; may be repeated");
    options.flag("--if-not-exists", if_not_exists_, "a topic that exists already is left as it is, and no error");
    declare_dry_run(options, dry_run_);
  }

  void validate(const OptionSet&) override {
    for (const auto& setting : settings_) {
      auto [name, value] = parse_setting(setting, "--config");
      config_.set(name, value);
    }
    for (const auto& name : names_) require_valid_topic_name(name);
  }

  int run(const Globals& globals) override {
    if (dry_run_) return rehearse(globals);
    Store store = Store::open_or_create(globals.store_directory());
    return each_new([&](const std::string& name) {
      store.create_topic(name, partitions(), config_);
      detail("created topic " + description(name));
    });
  }

 private:
  int partitions() const { return static_cast<int>(partitions_.value_or(1)); }

  std::string description(const std::string& name) const {
    std::string text = name + " with " + counted(static_cast<std::uint64_t>(partitions()), "partition");
    for (const auto& [key, value] : config_.values()) text += ", " + key + "=" + value;
    return text;
  }

  // One that is there already is no failure where that was foreseen.
  template <class Make>
  int each_new(Make make) const {
    return for_each_item(names_, [&](const std::string& name) {
      try {
        make(name);
      } catch (const Error& error) {
        if (!if_not_exists_ || error.code() != ErrorCode::already_exists) throw;
      }
    });
  }

  int rehearse(const Globals& globals) const {
    std::string directory = globals.store_directory();
    std::optional<Store> store;
    std::vector<std::string> topics;  // those that are there, and those that would be by then
    Output output;
    try {
      store = Store::open(directory);
      topics = store->topic_names();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) throw;
      Store::require_creatable(directory);
      std::string text = "would make a store in ";
      append_visible(text, directory);
      output.append(text + "\n");
    }
    const int status = each_new([&](const std::string& name) {
      if (store) store->require_free(name);
      if (std::find(topics.begin(), topics.end(), name) != topics.end()) {
        throw Error(ErrorCode::already_exists, "topic \"" + name + "\" exists already");
      }
      require_no_collision(name, topics);
      if (store) store->require_writable();
      output.append("would create topic " + description(name) + "\n");
      topics.push_back(name);
    });
    output.finish();
    return status;
  }

  std::vector<std::string> names_;
  std::optional<std::int64_t> partitions_;
  std::vector<std::string> settings_;
  bool if_not_exists_ = false;
  bool dry_run_ = false;
  TopicConfig config_;
};

}  // namespace

const CommandEntry create_topic_command = {"create-topic", "TOPIC...", "make topics, and the store if there is none",
                                           make_command<CreateTopic>};

}  // namespace partlog::cmd
