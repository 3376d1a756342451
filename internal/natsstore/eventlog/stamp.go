package eventlog

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// authPrefix is the prefix of the names of the attributes that identify the cause of an event.
const authPrefix = "auth"

// stamps creates and verifies stamps, the proof that the auth attributes of an event are true
// (decision 0011): an HMAC over the whole event. The zero value has no keys and accepts no auth
// attributes. It is safe for concurrent use. mu guards keys, which openStamps replaces as a whole.
//
//	Sluice-Stamp: <key id>.<HMAC-SHA256 in base64url>
type stamps struct {
	names streams.Names

	mu   sync.RWMutex
	keys []stampKey // the newest first
}

type stampKey struct {
	id   string
	macs *sync.Pool // HMACs with the secret
}

func newStampKey(id string, secret []byte) stampKey {
	return stampKey{id, &sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

// sum returns the HMAC over parts.
func (k stampKey) sum(parts ...[]byte) []byte {
	mac := k.macs.Get().(hash.Hash) //nolint:forcetypeassert // the pool has only such values
	defer k.macs.Put(mac)
	mac.Reset()
	for _, part := range parts {
		_, _ = mac.Write(part) // Write of a hash never fails
	}
	return mac.Sum(nil)
}

// errNoStampKey is the error of a server that publishes before Provision has finished.
var errNoStampKey = errors.New("no stamp key yet")

// openStamps loads the keys for stamps. They are not rotated, because the stamp of an event must be
// valid as long as the event is stored.
func (l *Log) openStamps(ctx context.Context) error {
	keys, err := l.core.Keys().For(ctx, sluice.UseStamp)
	if err != nil {
		return err
	}
	list := make([]stampKey, len(keys))
	for i, k := range keys {
		list[i] = newStampKey(k.ID, k.Seed)
	}
	l.stamps.mu.Lock()
	defer l.stamps.mu.Unlock()
	l.stamps.keys = list
	return nil
}

// seal adds a stamp to a message with auth attributes, and removes any other stamp. The attributes
// must be true, that is, a trusted publisher has sent them.
func (st *stamps) seal(msg *nats.Msg) error {
	delete(msg.Header, streams.HeaderStamp)
	var w written
	if err := w.read(st.names, msg.Subject, msg.Header, msg.Data); err != nil || !hasAuth(w.Extensions) {
		return nil //nolint:nilerr // a message that cannot be decoded has no auth attributes
	}
	return st.put(msg, &w)
}

// sealEvent is seal for the message of an event that the server publishes. Code InvalidRequest if a
// reader would decode other auth attributes, because the data of the event is a CloudEvent itself.
func (st *stamps) sealEvent(msg *nats.Msg, e *sluice.Event) error {
	if !hasAuth(e.Extensions) {
		return nil
	}
	var w written
	if w.know(st.names, msg.Subject, e) {
		return st.put(msg, &w)
	}
	if err := w.read(st.names, msg.Subject, msg.Header, msg.Data); err != nil {
		return err
	}
	if !maps.Equal(authOf(e.Extensions), authOf(w.Extensions)) {
		return sluice.Errorf(sluice.InvalidRequest, "the data is a CloudEvent with different auth attributes; publish that event, or use another content type")
	}
	return st.put(msg, &w)
}

func (st *stamps) put(msg *nats.Msg, w *written) error {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if len(st.keys) == 0 {
		return errNoStampKey
	}
	key := st.keys[0]
	stamp := append(make([]byte, 0, len(key.id)+1+base64.RawURLEncoding.EncodedLen(sha256.Size)), key.id...)
	msg.Header[streams.HeaderStamp] = []string{string(base64.RawURLEncoding.AppendEncode(append(stamp, '.'), w.sum(key)))}
	return nil
}

// believe removes the auth attributes from an event unless a stamp proves them.
func (st *stamps) believe(w *written, header nats.Header) {
	if !hasAuth(w.Extensions) || w.err == nil && st.proves(w, header) {
		return
	}
	maps.DeleteFunc(w.Extensions, func(name, _ string) bool { return isAuth(name) })
	if len(w.Extensions) == 0 {
		w.Extensions = nil
	}
}

func (st *stamps) proves(w *written, header nats.Header) bool {
	values := header[streams.HeaderStamp]
	if len(values) != 1 {
		return false
	}
	id, encoded, _ := strings.Cut(values[0], ".")
	mac, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return false
	}
	st.mu.RLock()
	defer st.mu.RUnlock()
	i := slices.IndexFunc(st.keys, func(k stampKey) bool { return k.id == id })
	return i >= 0 && hmac.Equal(mac, w.sum(st.keys[i]))
}

// Secret returns a text of 64 hexadecimal digits that only the servers of this log can derive from a
// name: an HMAC with the oldest key for stamps, so it is always the same. No stamp is an HMAC over
// such a text, which would begin with a length of 2^56 or more. Code Unavailable before Provision.
func (l *Log) Secret(name string) (string, error) {
	l.stamps.mu.RLock()
	defer l.stamps.mu.RUnlock()
	if len(l.stamps.keys) == 0 {
		return "", sluice.Errorf(sluice.Unavailable, "the store has no key yet")
	}
	oldest := l.stamps.keys[len(l.stamps.keys)-1]
	return hex.EncodeToString(oldest.sum([]byte("name "), []byte(name))), nil
}

func isAuth(name string) bool { return strings.HasPrefix(name, authPrefix) }

func hasAuth(extensions map[string]string) bool {
	for name := range extensions {
		if isAuth(name) {
			return true
		}
	}
	return false
}

func authOf(extensions map[string]string) map[string]string {
	auth := maps.Clone(extensions)
	maps.DeleteFunc(auth, func(name, _ string) bool { return !isAuth(name) })
	return auth
}

// sum returns the HMAC over all parts of the event that a receiver gets. Therefore a stamp is
// invalid on another event. Each part has its length before it, and the extensions have their
// number.
func (w *written) sum(key stampKey) []byte {
	at := ""
	if !w.Time.IsZero() {
		at = w.Time.Format(time.RFC3339Nano)
	}
	said := make([]byte, 0, 512)
	for _, part := range [...]string{w.Namespace, string(w.Path), w.msgID, w.ID, w.Type, w.Source, w.Subject, w.DataSchema, w.ContentType, at} {
		said = appendPart(said, part)
	}
	said = binary.BigEndian.AppendUint64(said, uint64(len(w.Extensions)))
	for _, name := range sortedNames(w.Extensions) {
		said = appendPart(appendPart(said, name), w.Extensions[name])
	}
	return key.sum(said, w.Data)
}

// sortedNames is slices.Sorted of the keys of a map, with one allocation.
func sortedNames[V any](of map[string]V) []string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func appendPart(to []byte, part string) []byte {
	return append(binary.BigEndian.AppendUint64(to, uint64(len(part))), part...)
}

// written is an event as decoded from its message, before missing attributes are set.
type written struct {
	sluice.Event

	msgID string
	err   error // why the message cannot be decoded
}

// read decodes a message. Code InvalidRequest if its subject is not that of a path, its path has no
// writers, or its body does not have the type that it claims; the attributes that could be decoded
// are set nevertheless.
func (w *written) read(names streams.Names, subject string, header nats.Header, data []byte) error {
	ns, path, pathErr := names.ParseSubject(subject)
	if pathErr != nil {
		ns = namespaceOf(names.BareSubject(subject))
	} else {
		pathErr = checkWritable(path)
	}
	w.Namespace, w.Path = ns, path
	if len(data) > 0 {
		w.Data = data
	}
	w.msgID = readHeader(&w.Event, header)
	w.err = readStructured(&w.Event)
	if pathErr != nil {
		w.err = pathErr
	}
	return w.err
}

// know sets the same as read of the message of the event, without decoding the message. It returns
// false for a message that must be decoded, because its body may contain the event.
func (w *written) know(names streams.Names, subject string, e *sluice.Event) bool {
	ns, path, err := names.ParseSubject(subject)
	if err != nil || checkWritable(path) != nil || strings.Contains(strings.ToLower(e.ContentType), "cloudevents") {
		return false
	}
	w.Event, w.msgID = *e, e.ID
	w.Namespace, w.Path = ns, path
	if !e.Time.IsZero() {
		w.Time = e.Time.UTC()
	}
	return true
}

// checkWritable returns an error with code InvalidRequest for a reserved path to which not even the
// server writes.
func checkWritable(path sluice.Path) error {
	if !path.Reserved() || isSystem(path) {
		return nil
	}
	return sluice.Errorf(sluice.InvalidRequest, "path %q: paths that start with /_sys or /$ are reserved", path)
}

// isSystem reports whether the first segment of the path is the one below which only the server
// writes; permissions deny it to others. Other reserved paths have no writers.
func isSystem(path sluice.Path) bool { return path.Segments()[0] == "_sys" }
