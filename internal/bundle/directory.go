package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/internal/jsonarray"
)

// The files of a directory that its manifest does not name. The receipt may be added after the
// import.
const (
	ManifestFile = "manifest.json"
	sumsFile     = "SHA256SUMS"
	ReceiptFile  = "receipt.json"
)

// Limits of a directory, in bytes and files.
const (
	maxInline   = 64 << 10 // content of an entry that is inline in the entry
	entriesSize = 8 << 20  // of a file of entries; a larger file has only one entry
	maxFile     = MaxContent
	maxManifest = 32 << 20
	maxFiles    = 100_000
)

// manifestType is the type of the signed document of a directory.
const manifestType = "application/vnd.sluice.bundle.manifest+json"

// file is a file of a directory.
type file struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

func (f *file) canonical() []byte {
	b := appendString([]byte(`{"name":`), f.Name)
	b = appendString(append(b, `,"sha256":`...), f.SHA256)
	return append(strconv.AppendInt(append(b, `,"size":`...), f.Size, 10), '}')
}

// fileOf returns the description of a file with content.
func fileOf(name string, content []byte) file {
	return file{Name: name, SHA256: hexSum(content), Size: int64(len(content))}
}

// entriesName returns the name of the nth file of entries, from 1.
func entriesName(n int) string { return fmt.Sprintf("entries-%05d.ndjson", n) }

// dataName returns the name of the file with content of a digest and media type.
func dataName(sum, contentType string) string { return "data/" + sum + "." + extensionOf(contentType) }

// isDataName reports whether a name has the form of a data file's name, and returns the digest in
// it. Such names have only lower-case letters and digits, so they are valid and unique on every
// file system.
func isDataName(name string) (sum string, ok bool) {
	rest, ok := strings.CutPrefix(name, "data/")
	sum, extension, dot := strings.Cut(rest, ".")
	return sum, ok && dot && isDigest(sum) && len(extension) <= 8 && isExtension(extension)
}

// extensionOf returns the extension of a file with content of a media type. The extension is only
// for people and their programs; readers find content by its digest. "bin" for an unknown type.
func extensionOf(contentType string) string {
	t, _, err := mime.ParseMediaType(contentType)
	known := map[string]string{
		"application/json": "json", "text/plain": "txt", "text/html": "html", "text/csv": "csv", "text/markdown": "md",
		"application/xml": "xml", "text/xml": "xml", "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif",
		"image/webp": "webp", "image/svg+xml": "svg", "application/pdf": "pdf", "application/zip": "zip",
		"application/gzip": "gz", "application/yaml": "yaml", "audio/mpeg": "mp3", "video/mp4": "mp4",
	}
	switch {
	case err != nil:
		return "bin"
	case known[t] != "":
		return known[t]
	case strings.HasSuffix(t, "+json"):
		return "json"
	case strings.HasSuffix(t, "+xml"):
		return "xml"
	case strings.HasPrefix(t, "text/"):
		return "txt"
	}
	return "bin"
}

// Manifest is the signed statement of a directory, and its files in ascending order of their names.
// Its signature is not verified yet; Judge does that. A manifest is not changed after it was
// parsed, so goroutines may read it at the same time.
type Manifest struct {
	Signed

	files []file
	// Each element of files, by name.
	named map[string]*file
	text  []byte // as it was read
}

// Size returns the bytes of the directory. Size counts the manifest and SHA256SUMS too, but no
// receipt. The sizes are as declared: before the signature is verified, they are a claim of the
// sender.
func (m *Manifest) Size() (n int64) {
	for i := range m.files {
		n += m.files[i].Size
	}
	return n + int64(len(m.text)+len(m.sums()))
}

// Sum returns the SHA-256 of the manifest as it was read, in hex.
func (m *Manifest) Sum() string { return hexSum(m.text) }

// members returns the members of the manifest without its signature. Between separates the files in
// the list of files: a line break for people, nothing for the signed form.
func (m *Manifest) members(between string) (map[string][]byte, error) {
	members, err := membersOf(&m.Header)
	if err != nil {
		return nil, err
	}
	list := []byte{'['}
	for i := range m.files {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(append(list, between...), m.files[i].canonical()...)
	}
	members["files"] = append(append(list, between...), ']')
	return members, nil
}

// seal computes the message to sign.
func (m *Manifest) seal() error {
	members, err := m.members("")
	if err != nil {
		return err
	}
	text, _ := assemble(members, "")
	m.message = envelope(manifestType, text)
	return nil
}

// format returns the manifest as a file, with each member and each file name on a line of its own.
func (m *Manifest) format() ([]byte, error) {
	members, err := m.members("\n")
	if err != nil {
		return nil, err
	}
	members["signature"] = quoteSignature(m.signature)
	b := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, '\n'), '"')
		b = append(append(append(b, name...), `": `...), members[name]...)
	}
	return append(b, "\n}\n"...), nil
}

// ParseManifest parses a manifest and checks its form. Codes: Unprocessable; BundleSignatureInvalid
// if the signature is malformed.
func ParseManifest(text []byte) (*Manifest, error) {
	members, err := split(text)
	if err != nil {
		return nil, err
	}
	m := &Manifest{text: text}
	if m.signature, err = parseSignature(members["signature"]); err != nil {
		return nil, err
	}
	list := members["files"]
	delete(members, "signature")
	delete(members, "files")
	if err := m.readHeader(members); err != nil {
		return nil, err
	}
	elements, err := jsonarray.Split(list, maxFiles)
	if err != nil {
		return nil, invalid("files: %v", err)
	}
	m.files = make([]file, len(elements))
	for i, element := range elements {
		f := &m.files[i]
		if err := json.Unmarshal(element, f); err != nil || !bytes.Equal(f.canonical(), element) {
			return nil, invalid("files: %.200q has another form than Sluice writes", element)
		}
	}
	if err := m.checkFiles(); err != nil {
		return nil, err
	}
	return m, m.seal()
}

// checkFiles returns an error unless the names are those of a bundle, ascending, and the sizes
// bounded. Ascending names make duplicates impossible and leave one order to sign. The files of
// entries must be numbered without a gap from 1, because readers ask for them by number.
func (m *Manifest) checkFiles() error {
	entries, last := 0, ""
	m.named = make(map[string]*file, len(m.files))
	for i := range m.files {
		f := &m.files[i]
		sum, isData := isDataName(f.Name)
		switch {
		case f.Name <= last:
			return invalid("files: %.200q is named twice or out of order", f.Name)
		case !isDigest(f.SHA256) || f.Size < 1 || f.Size > maxFile:
			return invalid("files: %.200q has no digest, or not 1 to %d bytes", f.Name, maxFile)
		case isData && sum != f.SHA256: // not a secret: of a file
			return invalid("files: %.200q is not named by its digest", f.Name)
		case !isData && f.Name != entriesName(entries+1):
			return invalid("files: %.200q is no name of a file in a bundle", f.Name)
		case !isData:
			entries++
		}
		last = f.Name
		m.named[f.Name] = f
	}
	if (entries > 0) != (m.Header.Count > 0) {
		return invalid("it has %d entries in %d files", m.Header.Count, entries)
	}
	return nil
}

// sums returns the content of the file SHA256SUMS, with the manifest and every file that it names.
// The format is that of sha256sum(1), so a courier can check a medium without Sluice:
//
//	5f0c…  manifest.json
//	9d41…  data/9d41….png
func (m *Manifest) sums() []byte {
	b := fmt.Appendf(nil, "%s  %s\n", hexSum(m.text), ManifestFile)
	for _, f := range m.files {
		b = fmt.Appendf(b, "%s  %s\n", f.SHA256, f.Name)
	}
	return b
}

// readFile reads a regular file of at most most bytes into a buffer, which grows if it is too
// small. Code Unprocessable for a link, a directory or a device, and for a file that is larger or
// changes. The caller owns the result, which shares memory with the buffer; pass it as the buffer
// of the next call. Lstat before and Fstat after Open catch a name that was replaced by a link in
// between. One byte more than the size is read, so that a file that grows is noticed.
func readFile(root *os.Root, name string, most int64, buffer []byte) ([]byte, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, missing(name, err)
	}
	if !before.Mode().IsRegular() || before.Size() > most {
		return nil, invalid("%s is no regular file of at most %d bytes", name, most)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, missing(name, err)
	}
	defer func() { _ = f.Close() }()
	after, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	if !os.SameFile(before, after) {
		return nil, invalid("%s was replaced while it was read", name)
	}
	if size := int(before.Size()) + 1; cap(buffer) < size {
		buffer = make([]byte, size)
	}
	buffer = buffer[:before.Size()+1]
	n, err := io.ReadFull(f, buffer)
	if n != len(buffer)-1 || !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, errors.Join(invalid("%s changed while it was read", name), ioFailure(err))
	}
	return buffer[:n], nil
}

// ioFailure returns an error of reading; nil for the end of a file.
func ioFailure(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

func missing(name string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return invalid("%s is missing", name)
	}
	return fmt.Errorf("bundle: %w", err)
}

// readDeclared is readFile for a file of the manifest. It returns an error unless the file has
// exactly the declared content.
func readDeclared(root *os.Root, f *file, buffer []byte) ([]byte, error) {
	content, err := readFile(root, f.Name, f.Size, buffer)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	if int64(len(content)) != f.Size || hex.EncodeToString(sum[:]) != f.SHA256 {
		return nil, invalid("%s is not the file that the manifest declares", f.Name)
	}
	return content, nil
}
