// Package export writes dead letters and events to files. It defines the file of each record, safe
// file names, and an order of disk writes that prevents duplicates and torn records after a crash.
//
//	<dir>/events/dlq/<subscription>/<event id>.json   a dead letter: written beside it, synced, renamed
//	<dir>/events/dlq/.position                         the last dead letter that has a file
//	<dir>/logs/events/<namespace>-<yyyy-mm-dd>.jsonl   events, one a line, in the order of the log
//	<dir>/logs/events/<namespace>.unreadable.jsonl     ranges that the files may lack events of, because the log is damaged
//	<dir>/logs/events/.<namespace>.position            how far the log is written, and how long its last file is
//
// Lines are appended and synced, and then the position is replaced. Data beyond the position's
// length was written before a crash that prevented the update of the position, so it is cut off and
// written again. A later dead letter of the same delivery replaces the file of an earlier one. The
// file stays when the letter is redriven or discarded.
//
// The exporter reads the streams independently and blocks nothing else. A failed write is retried
// until it succeeds.
package export
