// Package terminal has the common parts of all commands: the session with its streams and global
// flags, tables and JSON, colours, questions, progress, errors and exit statuses.
//
// Text from outside passes one of these on its way to a terminal:
//
//	Say, Complain ──► cleaned(args) ──► Harmless     one line; Clean passes unchanged
//	Table         ──► Harmless of each cell
//	JSON, YAML    ──► EncodeJSON ──► EscapedJSON     the value is the same
//	Paint         ──► Harmless, then the codes of a colour ──► Clean
//
// A session belongs to one command and is not safe for concurrent use.
package terminal
