// `partlog alter-topic`
#include "messages.h"
#include "output.h"
#include "topic_commands.h"

namespace partlog::cmd {
namespace {

class AlterTopic : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(names_, "topic", 1, 1);
    options.list("-c,--config", "NAME=VALUE", settings_, "set a configuration value; may be repeated");
    options.list("-x,--delete-config", "NAME", deletions_, "go back to the default; may be repeated");
    declare_dry_run(options, dry_run_);
  }

  void validate(const OptionSet&) override {
    if (settings_.empty() && deletions_.empty()) throw UsageError("nothing to change: give --config or --delete-config");
    for (const auto& setting : settings_) changes_.push_back(parse_setting(setting, "--config"));
    for (const auto& name : deletions_) {
      for (const auto& [changed, value] : changes_) {
        if (changed == name) throw UsageError("--config and --delete-config both name " + name);
      }
    }
    apply(TopicConfig());  // unknown names and bad values, before the store is looked at
  }

  int run(const Globals& globals) override {
    Store store = open_store(globals);
    Topic topic = store.topic(names_[0]);
    if (dry_run_) {
      std::string report = differences(topic, apply(topic.config));
      store.require_writable();
      Output output;
      output.append(report);
      output.finish();
    } else {
      store.alter_topic_config(topic, [this](TopicConfig& config) { config = apply(config); }, globals.lock_timeout);
    }
    return status_done;
  }

 private:
  TopicConfig apply(TopicConfig config) const {
    for (const auto& name : deletions_) config.unset(name);
    for (const auto& [name, value] : changes_) config.set(name, value);
    return config;
  }

  static std::string differences(const Topic& topic, const TopicConfig& changed) {
    std::string text;
    for (const auto& definition : TopicConfig::definitions()) {
      std::string name(definition.name);
      bool stays_set = changed.is_set(name);
      if (stays_set == topic.config.is_set(name) && changed.get(name) == topic.config.get(name)) continue;
      text += stays_set ? "would set " : "would reset ";
      text += name + " of topic " + topic.name + " to " + (stays_set ? "" : "its default ") + changed.get(name) + " (now " +
              topic.config.get(name) + ")\n";
    }
    return text;
  }

  std::vector<std::string> names_;
  std::vector<std::string> settings_;
  std::vector<std::string> deletions_;
  std::vector<std::pair<std::string, std::string>> changes_;
  bool dry_run_ = false;
};

}  // namespace

const CommandEntry alter_topic_command = {"alter-topic", "TOPIC", "change the configuration of a topic",
                                          make_command<AlterTopic>};

}  // namespace partlog::cmd
