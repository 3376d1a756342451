package eventlog

import (
	"crypto/hmac"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/streams"
)

// noteMark is the first byte of the text of the HMAC of a note. The text of a stamp starts with a
// length, which never has this first byte.
const noteMark = 0xff

// addNote adds a note to a message: the ID of a key, the HMAC and the text.
//
//	Sluice-Note: <key id>.<HMAC in base64url>.<note in base64url>
func (st *stamps) addNote(msg *nats.Msg, note []byte) error {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if len(st.keys) == 0 {
		return errNoStampKey
	}
	key := st.keys[0]
	proof := noteSum(key, st.names.BareSubject(msg.Subject), msg.Header.Get(streams.HeaderMsgID), note)
	msg.Header[streams.HeaderNote] = []string{strings.Join([]string{
		key.id, base64.RawURLEncoding.EncodeToString(proof), base64.RawURLEncoding.EncodeToString(note),
	}, ".")}
	return nil
}

// note returns the note of a message with a subject, if a server has written it.
func (st *stamps) note(subject string, header nats.Header) ([]byte, bool) {
	values := header[streams.HeaderNote]
	if len(values) != 1 {
		return nil, false
	}
	parts := strings.Split(values[0], ".")
	if len(parts) != 3 {
		return nil, false
	}
	proof, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, false
	}
	said, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return nil, false
	}
	st.mu.RLock()
	defer st.mu.RUnlock()
	i := slices.IndexFunc(st.keys, func(k stampKey) bool { return k.id == parts[0] })
	return said, i >= 0 && hmac.Equal(proof, noteSum(st.keys[i], st.names.BareSubject(subject), header.Get(streams.HeaderMsgID), said))
}

// noteSum returns the HMAC over a note, and the subject and the ID of its message. Therefore the
// note is invalid on another message.
func noteSum(key stampKey, subject, id string, note []byte) []byte {
	said := make([]byte, 0, 256)
	said = append(said, noteMark)
	said = appendPart(appendPart(said, subject), id)
	return key.sum(said, note)
}
