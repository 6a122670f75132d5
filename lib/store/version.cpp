#include "partlog/version.h"
namespace partlog {
const char* version() { return PARTLOG_VERSION; }
}  // namespace partlog
