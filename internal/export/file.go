package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"
)

// Only the server's user can read exported files.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// position is the progress of an export.
type position struct {
	Seq   uint64    `json:"seq"`                   // of the last message
	Log   string    `json:"incarnation,omitempty"` // of its stream; another stream starts from 0; "": of an earlier build
	Since time.Time `json:"since,omitzero"`        // when its namespace was created; a new namespace starts from 0
	Day   string    `json:"day,omitempty"`         // of the last file
	Bytes int64     `json:"bytes"`                 // of that file
}

// identity says which stream sequences are of.
type identity struct {
	is  string // its incarnation
	was string // in the backup from which it was restored; "": it was not restored
}

// isOf reports whether the position's sequence is of a stream. The position of an earlier build is,
// unless the stream was restored: then it may be of the stream before.
func (p position) isOf(id identity) bool {
	return p.Log == id.is || p.Log == "" && id.was == ""
}

// readPosition returns the position in a file, and whether there is one.
func readPosition(root *os.Root, name string) (at position, known bool, err error) {
	data, err := root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return at, false, nil
	}
	if err != nil {
		return at, false, err
	}
	if err := json.Unmarshal(data, &at); err != nil {
		return at, false, fmt.Errorf("%s: %w", name, err)
	}
	return at, true, nil
}

func (p position) save(root *os.Root, name string) error {
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("position: %w", err)
	}
	return replace(root, name, name+".new", append(data, '\n'))
}

// replace replaces a file's content atomically. It writes the new content to temp first.
func replace(root *os.Root, name, temp string, content []byte) (err error) {
	file, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := root.Rename(temp, name); err != nil {
		return err
	}
	return syncDir(root, path.Dir(name))
}

// syncDir syncs a directory's entries to disk.
func syncDir(root *os.Root, name string) error {
	dir, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
