// Package terminal has the common parts of all commands: the session with its streams and global
// flags, tables and JSON, colours, questions, progress, errors and exit statuses.
package terminal
