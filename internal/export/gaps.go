package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"
)

// missing is a line of the file of a namespace's lost ranges. The files of events may lack events
// in such a range.
type missing struct {
	From uint64    `json:"from"` // first sequence
	To   uint64    `json:"to"`   // last sequence
	Log  time.Time `json:"log_created_at"`
}

func (l *log) gapsFile() string {
	return path.Join(logsDir, harmless(l.namespace)+".unreadable.jsonl")
}

// noteGaps adds the lost ranges up to a sequence, which the export has passed, to the file. It
// skips ranges that this or an earlier run has noted. A range that is found later is noted at the
// next call.
func (l *log) noteGaps(upTo uint64) error {
	if l.lost == nil {
		return nil
	}
	var passed []missing
	for _, g := range l.lost() {
		if g.From <= upTo {
			passed = append(passed, missing{g.From, g.To, l.at.Since.UTC()})
		}
	}
	if len(passed) == 0 {
		return nil
	}
	content, err := l.root.ReadFile(l.gapsFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	length := len(content)
	for _, m := range passed {
		line, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("lost range: %w", err)
		}
		line = append(line, '\n')
		if known := slices.Collect(bytes.Lines(content)); !slices.ContainsFunc(known, func(other []byte) bool { return bytes.Equal(other, line) }) {
			content = append(content, line...)
		}
	}
	if len(content) == length {
		return nil
	}
	return replace(l.root, l.gapsFile(), l.gapsFile()+".new", content)
}
