#include "command.h"

int main(int argc, char** argv) { return partlog::cmd::run_program(argc, argv); }
