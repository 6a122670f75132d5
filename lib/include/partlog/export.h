// Which names the shared library shows: everything in it is hidden but what these headers mark.
#pragma once

#define PARTLOG_EXPORT __attribute__((visibility("default")))
// For what stands inside an exported class and is no part of the interface.
#define PARTLOG_LOCAL __attribute__((visibility("hidden")))
