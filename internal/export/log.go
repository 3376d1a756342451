package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const logsDir = "logs/events"

// log writes the files of one namespace's log. The last file is open.
type log struct {
	root      *os.Root
	namespace string
	at        position
	file      *os.File // nil: none is open yet

	lost func() []sluice.Gap // ranges that are lost to damage; nil: none are
}

// openLog opens the files of a namespace at their position, and cuts off data after it. The files of
// a restored log begin anew, because those before have events that it lacks, and its first ones.
func openLog(root *os.Root, namespace string, since time.Time, id identity) (*log, error) {
	if err := root.MkdirAll(logsDir, dirMode); err != nil {
		return nil, err
	}
	l := &log{root: root, namespace: namespace}
	at, known, err := readPosition(root, l.positionFile())
	if err != nil {
		return nil, err
	}
	l.at = at
	if !at.Since.Equal(since) || !at.isOf(id) {
		l.at.Seq = 0 // another log with the same name
	}
	l.at.Since, l.at.Log = since, id.is
	if restored := id.was != "" && !at.isOf(id); restored || !known {
		l.at.Day, l.at.Bytes = "", 0
		if err := l.setAside(); err != nil {
			return nil, err
		}
		if err := l.at.save(root, l.positionFile()); err != nil {
			return nil, err
		}
	}
	if l.at.Day == "" {
		return l, nil
	}
	return l, l.open(l.at.Day, l.at.Bytes)
}

func (l *log) positionFile() string {
	return path.Join(logsDir, "."+harmless(l.namespace)+".position")
}

func (l *log) fileOf(day string) string {
	return path.Join(logsDir, harmless(l.namespace)+"-"+day+".jsonl")
}

// setAside renames the files: without a position their valid length is unknown, and those of another
// log stay as they are.
func (l *log) setAside() error {
	names, err := fs.Glob(l.root.FS(), l.fileOf("[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"))
	if err != nil {
		return fmt.Errorf("files of %s: %w", l.namespace, err)
	}
	for _, name := range names {
		if err := l.root.Rename(name, name+".before-"+time.Now().UTC().Format("20060102T150405")); err != nil {
			return err
		}
	}
	return nil
}

// open opens a day's file and cuts it to a length. A shorter file was changed by another program,
// and is continued at its end.
func (l *log) open(day string, length int64) error {
	if err := l.close(); err != nil {
		return err
	}
	file, err := l.root.OpenFile(l.fileOf(day), os.O_WRONLY|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	end, err := file.Seek(0, io.SeekEnd)
	if err == nil && end > length {
		err = file.Truncate(length)
		end = length
	}
	if err == nil {
		_, err = file.Seek(end, io.SeekStart)
	}
	if err == nil {
		err = syncDir(l.root, logsDir)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	l.file, l.at.Day, l.at.Bytes = file, day, end
	return nil
}

func (l *log) close() error {
	if l.file == nil {
		return nil
	}
	file := l.file
	l.file = nil
	return file.Close()
}

// write appends the lines of events, each to the file of its day, and stores the position after
// every file. After an error, the log must be opened again.
func (l *log) write(events []sluice.Event) error {
	for len(events) > 0 {
		day := l.dayOf(&events[0])
		var lines bytes.Buffer
		n := 0
		for n < len(events) && l.dayOf(&events[n]) == day {
			if err := json.Compact(&lines, events[n].AppendJSON(nil)); err != nil { // data may have line breaks
				return fmt.Errorf("event %d: %w", events[n].Seq, err)
			}
			lines.WriteByte('\n')
			n++
		}
		if err := l.append(day, lines.Bytes(), events[n-1].Seq); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

func (l *log) append(day string, lines []byte, last uint64) error {
	if l.file == nil || day != l.at.Day {
		if err := l.open(day, 0); err != nil { // existing content has no position
			return err
		}
	}
	if _, err := l.file.Write(lines); err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	if err := l.noteGaps(last); err != nil { // before the position, which says that this is done
		return err
	}
	l.at.Seq, l.at.Bytes = last, l.at.Bytes+int64(len(lines))
	return l.at.save(l.root, l.positionFile())
}

// dayOf returns the day on which an event was stored, in UTC. Files are in log order, so after a
// clock was set back, earlier files are not opened again.
func (l *log) dayOf(e *sluice.Event) string {
	return max(l.at.Day, e.Stored.UTC().Format(time.DateOnly))
}
