package subscriptioncmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// maxDefinition limits a line of NDJSON, and a YAML document, in bytes.
const maxDefinition = 16 << 20

// definition is the definition of a subscription in a file.
type definition struct {
	line int // line where it, or the list that contains it, begins
	item int // number in that list, from 1; 0: it is not in a list
	spec json.RawMessage
	err  *sluice.Error // why it cannot be read
}

// definitionFile reads subscriptions from YAML documents, or from the lines of NDJSON. The first
// line that is not empty shows the format: NDJSON begins with a complete JSON object. The memory in
// use is one line or document, not the file:
//
//	{"id":"a","pattern":"/a/**","endpoint":{"url":"https://a.example"}}   NDJSON
//
//	id: a                                                                 YAML
//	pattern: /a/**
//	---
//	- id: b                                                               a list of definitions
//	- id: c
//
// A line that is not JSON, or a document that is not YAML, becomes a definition with err, so that
// the rest of the file is imported. It is not safe for concurrent use.
type definitionFile struct {
	name    string
	Close   func()
	Size    int64 // in bytes; -1: unknown
	Read    int64 // bytes
	scanner *bufio.Scanner
	number  int // of the last line that was read
	ended   bool
	isLines *bool // nil: not known yet

	left []definition // read, and not returned yet
}

// openDefinitions opens a file; "-" is stdin. The caller must close it.
func openDefinitions(file string, stdin io.Reader) (*definitionFile, error) {
	f := &definitionFile{name: file, Size: -1, Close: func() {}}
	in := stdin
	if file != "-" {
		opened, err := os.Open(filepath.Clean(file))
		if err != nil {
			return nil, fmt.Errorf("read subscriptions: %w", err)
		}
		if info, err := opened.Stat(); err == nil {
			f.Size = info.Size()
		}
		in, f.Close = opened, func() { _ = opened.Close() } // the file was only read
	}
	f.scanner = bufio.NewScanner(in)
	f.scanner.Buffer(nil, maxDefinition)
	return f, nil
}

// Next returns the next definitions, none at the end of the file. It returns at most the given
// number of definitions and, unless there is only one, of bytes. An error means that the rest of
// the file cannot be read, such as a line larger than maxDefinition. Definitions that Next had
// collected for this call are then lost, so none of them is sent.
func (f *definitionFile) Next(most, size int) (all []definition, err error) {
	for len(all) < most {
		if len(f.left) == 0 {
			if f.ended {
				return all, nil
			}
			if f.left, err = f.read(); err != nil {
				return nil, err
			}
			continue
		}
		if size -= len(f.left[0].spec); size < 0 && len(all) > 0 {
			return all, nil
		}
		all, f.left = append(all, f.left[0]), f.left[1:]
	}
	return all, nil
}

// read reads a line of NDJSON or a YAML document. It returns no definitions for an empty one.
func (f *definitionFile) read() ([]definition, error) {
	var document []byte
	begin := 0
	for f.scan() {
		text := f.scanner.Bytes()
		blank := len(bytes.TrimSpace(text)) == 0
		switch {
		case blank && begin == 0:
			continue
		case f.isLines == nil:
			whole := isObject(text)
			f.isLines = &whole
		}
		switch {
		case *f.isLines && blank:
		case *f.isLines:
			return []definition{lineDefinition(text, f.number)}, nil
		case isSeparator(text):
			return documentDefinitions(document, begin), nil
		default:
			if begin == 0 {
				begin = f.number
			}
			if len(document)+len(text) > maxDefinition {
				return nil, fmt.Errorf("%s, line %d: the document is larger than %d bytes", f.name, begin, maxDefinition)
			}
			document = append(append(document, text...), '\n')
		}
	}
	f.ended = true
	if err := f.scanner.Err(); err != nil {
		return nil, fmt.Errorf("%s, line %d: %w", f.name, f.number+1, err)
	}
	return documentDefinitions(document, begin), nil
}

// scan reads one line, and counts its bytes and one for the line break. In a file with other line
// breaks, Read is behind the position in the file.
func (f *definitionFile) scan() bool {
	if !f.scanner.Scan() {
		return false
	}
	f.number++
	f.Read += int64(len(f.scanner.Bytes())) + 1
	return true
}

// isObject reports whether a line is a complete JSON object. YAML in flow style over several lines
// also begins with "{", but is not complete on its first line.
func isObject(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) && json.Valid(text)
}

// isSeparator reports whether a line ends a YAML document.
func isSeparator(line []byte) bool {
	mark, rest, _ := bytes.Cut(bytes.TrimRight(line, " \t\r"), []byte(" "))
	return (string(mark) == "---" || string(mark) == "...") && (len(rest) == 0 || rest[0] == '#')
}

// lineDefinition copies the line, because the scanner overwrites its buffer.
func lineDefinition(text []byte, line int) definition {
	d := definition{line: line, spec: bytes.Clone(bytes.TrimSpace(text))}
	if !json.Valid(d.spec) {
		d.err = sluice.Errorf(sluice.InvalidRequest, "the line is not JSON")
	}
	return d
}

// documentDefinitions returns the definition in a YAML document, or the definitions in its list;
// none if the document has only comments.
func documentDefinitions(document []byte, line int) []definition {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return []definition{{line: line, err: sluice.Errorf(sluice.InvalidRequest, "the document is not YAML: %v", plainError(err))}}
	}
	var list []json.RawMessage
	switch {
	case string(text) == "null":
		return nil
	case json.Unmarshal(text, &list) != nil:
		return []definition{{line: line, spec: text}}
	}
	all := make([]definition, len(list))
	for i, spec := range list {
		all[i] = definition{line: line, item: i + 1, spec: spec}
	}
	return all
}
