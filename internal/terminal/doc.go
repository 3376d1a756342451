// Package terminal is what the commands of the command line share: the session with its streams and
// global flags, tables and JSON, colours, questions, progress, errors and exit statuses.
package terminal
