package bundle

import (
	"bytes"
	"context"
	"fmt"
	"sync"
)

// walk reads the entries of a directory. Goroutines read and parse files ahead while the entries of
// the previous file are used.
type walk struct {
	dir   *Directory
	ahead int               // files that are parsed ahead
	check func(*wire) error // called for each entry while its file is parsed; must be safe for concurrent use
	spare chan []byte       // buffers that can be reused; nil: entries keep the memory that they refer to
}

// lines is a parsed file of entries.
type lines struct {
	entries []*wire
	text    []byte // memory that the entries refer to
	err     error
}

// each calls yield with each entry and its content. It passes on nothing from a file that differs
// from the declared one. It stops at the first error, also of yield, and returns it. yield must not
// keep the content if the walk has spare buffers.
func (w *walk) each(ctx context.Context, yield func(*wire, []byte) error) error {
	var data []byte
	return w.files(ctx, func(l *lines) error {
		for _, e := range l.entries {
			content, err := e.content, error(nil)
			if e.file != "" {
				content, err = w.dir.content(e, data)
			}
			if err == nil {
				err = yield(e, content)
			}
			if err != nil {
				return err
			}
			if e.file != "" && w.spare != nil {
				data = content
			}
		}
		return nil
	})
}

// files calls use with each file of entries, in order. When it returns, no file is being parsed. At
// most ahead+1 files of entries are in memory. An error of parsing is reported in the order of the
// files, after use was called with all files before it.
func (w *walk) files(ctx context.Context, use func(*lines) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var parsing []chan *lines
	for n, begun := 1, 0; w.dir.named[entriesName(n)] != nil; n++ {
		for begun < n+w.ahead && w.dir.named[entriesName(begun+1)] != nil {
			begun++
			file, done := begun, make(chan *lines, 1)
			parsing = append(parsing, done)
			running.Go(func() { done <- w.parse(ctx, file) })
		}
		l := <-parsing[0]
		parsing = parsing[1:]
		if l.err == nil {
			l.err = use(l)
		}
		if l.err != nil {
			return l.err
		}
		select {
		case w.spare <- l.text:
		default:
		}
	}
	return nil
}

// parse reads the nth file of entries, and parses it if it has the declared content.
func (w *walk) parse(ctx context.Context, n int) *lines {
	var buffer []byte
	select {
	case buffer = <-w.spare:
	default:
	}
	l := &lines{}
	if l.text, l.err = w.dir.lines(ctx, n, buffer); l.err != nil {
		return l
	}
	depth := w.dir.Header.Depth()
	for rest := l.text; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			l.err = invalid("a file of entries ends within a line")
			return l
		}
		e, err := consumeEntry(rest[:end], depth)
		if err == nil && (e.base64 || len(e.content) > maxInline) {
			err = invalid("entry %d: content above %d bytes or in base64 belongs into a file", e.seq, maxInline)
		}
		if err == nil {
			err = w.check(e)
		}
		if err != nil {
			l.err = err
			return l
		}
		l.entries, rest = append(l.entries, e), rest[end+1:]
	}
	return l
}

// lines reads the nth file of entries into a buffer.
func (d *Directory) lines(ctx context.Context, n int, buffer []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	f := d.named[entriesName(n)]
	text, err := readDeclared(d.root, f, buffer)
	if err == nil && f.Size > entriesSize && bytes.IndexByte(text, '\n') < len(text)-1 {
		err = invalid("%s is larger than %d bytes and has more than one entry", f.Name, entriesSize)
	}
	return text, err
}

// content reads the content of an entry from the file that the entry names, into a buffer.
func (d *Directory) content(w *wire, buffer []byte) ([]byte, error) {
	f := d.named[w.file]
	if _, ok := isDataName(w.file); f == nil || !ok {
		return nil, invalid("entry %d: content_file %.200q is not in the manifest", w.seq, w.file)
	}
	return readDeclared(d.root, f, buffer)
}
