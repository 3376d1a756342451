package bundle

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// A directory crosses a network as a tar stream of its files. In an export the manifest comes last,
// because it is signed last. In an import it comes first, because the importer stores nothing
// before it has verified the signature.

// partial is the suffix of the name of a file that is being written.
const partial = ".part"

// failureFile is the last file of an export that failed after it had begun; it contains the reason.
const failureFile = "error.txt"

// TarWriter writes the files of a directory as a tar stream. It is for one goroutine. An error is
// final: the stream is incomplete from then on.
type TarWriter struct{ tar *tar.Writer }

// NewTarWriter returns a writer.
func NewTarWriter(w io.Writer) TarWriter { return TarWriter{tar.NewWriter(w)} }

// Put writes a file.
func (w TarWriter) Put(name string, content []byte) error {
	err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644, Format: tar.FormatUSTAR})
	if err == nil {
		_, err = w.tar.Write(content)
	}
	if err != nil {
		return fmt.Errorf("send %s: %w", name, err)
	}
	return nil
}

// Fail writes the reason why the export has failed. The receiver then reports it with code
// Unavailable. Call Close afterwards, so that the stream ends well-formed and the message is not
// lost.
func (w TarWriter) Fail(message string) error { return w.Put(failureFile, []byte(message)) }

// Close ends the stream.
func (w TarWriter) Close() error {
	if err := w.tar.Close(); err != nil {
		return fmt.Errorf("send bundle: %w", err)
	}
	return nil
}

// Send writes the manifest, and then the named files as a tar stream. It compares each with the
// manifest, and calls sent with the size of each in bytes. The names are those that the server
// reported as missing; an unknown one has code Unprocessable. It reads one file at a time into
// memory, and stops between two files if ctx ends.
func (d *Directory) Send(ctx context.Context, to io.Writer, names []string, sent func(int)) error {
	w := NewTarWriter(to)
	if err := w.Put(ManifestFile, d.text); err != nil {
		return err
	}
	var buffer []byte
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("send bundle: %w", err)
		}
		content := d.sums()
		if name != sumsFile {
			f := d.named[name]
			if f == nil {
				return invalid("the server asks for %.200q, which is not in the manifest", name)
			}
			var err error
			if content, err = readDeclared(d.root, f, buffer); err != nil {
				return err
			}
			buffer = content
		}
		if err := w.Put(name, content); err != nil {
			return err
		}
		sent(len(content))
	}
	return w.Close()
}

// Arriving is a directory that is arriving as a tar stream, its manifest first.
type Arriving struct {
	*Manifest

	tar *tar.Reader
}

// ReadTar reads the manifest of a directory that is arriving. Codes: Unprocessable;
// BundleSignatureInvalid if the signature is malformed. Reading stops after the manifest. The
// caller decides about the signature before Inbox.Take reads the rest.
func ReadTar(r io.Reader) (*Arriving, error) {
	in := tar.NewReader(r)
	head, err := next(in)
	if err != nil {
		return nil, err
	}
	if head == nil || head.Name != ManifestFile || head.Size > maxManifest {
		return nil, invalid("the tar stream does not begin with %s of at most %d bytes", ManifestFile, maxManifest)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, broken(err)
	}
	m, err := ParseManifest(text)
	if err != nil {
		return nil, err
	}
	return &Arriving{m, in}, nil
}

// next returns the header of the next file; nil at the end.
func next(in *tar.Reader) (*tar.Header, error) {
	for {
		head, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil //nolint:nilnil // the end
		case err != nil:
			return nil, broken(err)
		case head.Typeflag == tar.TypeDir && head.Name == "data/":
			continue
		case head.Typeflag != tar.TypeReg || isSparse(head):
			return nil, invalid("%.200q in the tar stream is no regular file", head.Name)
		}
		return head, nil
	}
}

// isSparse reports whether a file is larger than its bytes in the stream.
func isSparse(head *tar.Header) bool {
	for name := range head.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// broken returns the error of a stream that cannot be read.
func broken(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, tar.ErrInsecurePath) || errors.Is(err, io.ErrUnexpectedEOF) {
		return invalid("the tar stream is damaged: %v", err)
	}
	return fmt.Errorf("read bundle: %w", err)
}

// Receive writes a directory that arrives as a tar stream, its manifest last, and returns the
// manifest when all files are synced to the disk. It returns an error if a file differs from the
// manifest. It does not verify the signature, which the importer does. After an error the files
// stay; repeat the call into an empty directory. Code Unavailable if the exporter reports a
// failure, reading fails, or the stream ends before the manifest.
func Receive(ctx context.Context, r io.Reader, path string) (*Manifest, error) {
	if err := os.MkdirAll(path+"/data", 0o755); err != nil { //nolint:gosec // couriers read it
		return nil, fmt.Errorf("bundle: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	stream := &incoming{from: r}
	x := receiving{root: root, tar: tar.NewReader(stream), files: map[string]file{}}
	m, err := x.run(ctx)
	if err != nil && stream.cut != nil && ctx.Err() == nil {
		err = sluice.Errorf(sluice.Unavailable, "the export broke off: %v; export again", stream.cut)
	}
	return m, errors.Join(err, root.Close())
}

// incoming is a stream that keeps the error with which it broke off.
type incoming struct {
	from io.Reader
	cut  error
}

// Read reads from the stream.
func (s *incoming) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.cut = err
	}
	return n, err //nolint:wrapcheck // the reader of the tar stream compares it
}

// receiving is a directory in transfer.
type receiving struct {
	root  *os.Root
	tar   *tar.Reader
	files map[string]file
	sums  []byte
}

func (x *receiving) run(ctx context.Context) (*Manifest, error) {
	for {
		head, err := next(x.tar)
		switch {
		case err != nil:
			return nil, err
		case head == nil:
			return nil, sluice.Errorf(sluice.Unavailable, "the export ended before its manifest; export again")
		case ctx.Err() != nil:
			return nil, fmt.Errorf("bundle: %w", ctx.Err())
		case head.Name == ManifestFile:
			return x.finish(head)
		}
		if err := x.take(head); err != nil {
			return nil, err
		}
	}
}

// take receives a file other than the manifest.
func (x *receiving) take(head *tar.Header) (err error) {
	_, isData := isDataName(head.Name)
	isEntries := strings.HasPrefix(head.Name, "entries-") && !strings.ContainsAny(head.Name, `/\`)
	switch {
	case head.Name == sumsFile:
		x.sums, err = x.read(head)
		return err
	case head.Name == failureFile:
		text, err := x.read(head)
		return cmp.Or(err, error(sluice.Errorf(sluice.Unavailable, "the export failed: %.1000s", text)))
	case !isData && !isEntries || head.Size > maxFile || len(x.files) >= maxFiles:
		return invalid("the export has %.200q, which is no file of a bundle", head.Name)
	}
	return x.store(head)
}

func (x *receiving) read(head *tar.Header) ([]byte, error) {
	if head.Size > maxManifest {
		return nil, invalid("%s is larger than %d bytes", head.Name, maxManifest)
	}
	text, err := io.ReadAll(x.tar)
	if err != nil {
		return nil, broken(err)
	}
	return text, nil
}

// store writes a file to the disk.
func (x *receiving) store(head *tar.Header) error {
	f, err := x.root.OpenFile(head.Name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), x.tar)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("bundle: %s: %w", head.Name, err)
	}
	x.files[head.Name] = file{Name: head.Name, SHA256: hex.EncodeToString(sum.Sum(nil)), Size: n}
	return nil
}

// finish writes the last two files, if all others match the manifest.
func (x *receiving) finish(head *tar.Header) (*Manifest, error) {
	text, err := x.read(head)
	if err != nil {
		return nil, err
	}
	m, err := ParseManifest(text)
	if err != nil {
		return nil, err
	}
	for i := range m.files {
		if x.files[m.files[i].Name] != m.files[i] {
			return nil, invalid("%s is not the file that the manifest declares; export again", m.files[i].Name)
		}
	}
	if len(x.files) != len(m.files) || !bytes.Equal(x.sums, m.sums()) {
		return nil, invalid("the export has other files than its manifest")
	}
	// The manifest becomes durable after all that it names, so a power failure leaves either a
	// complete bundle or none.
	for _, step := range []func() error{
		func() error { return x.write(sumsFile, x.sums) },
		func() error { return syncDirectory(x.root, "data") },
		func() error { return x.write(ManifestFile, text) },
		func() error { return syncDirectory(x.root, ".") },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (x *receiving) write(name string, content []byte) error {
	f, err := x.root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("bundle: %s: %w", name, err)
	}
	return nil
}

// syncDirectory makes the names in a directory durable.
func syncDirectory(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	return nil
}
