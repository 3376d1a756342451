package notify

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// KeyPrefix is the prefix of key IDs in the Durable Streams protocol.
const KeyPrefix = "ds_"

// Keys returns the newest signing key and its ID; nil if there is none yet.
type Keys interface {
	Newest() (id string, key ed25519.PrivateKey)
}

// Endpoints checks endpoints and asks for their consent, within the limits of the caller.
type Endpoints interface {
	Check(ctx context.Context, endpoint sluice.Endpoint) error
	Handshake(ctx context.Context, sub *sluice.Subscription) (*sluice.Agreement, error)
}

// Streams posts the notices of Durable Streams subscriptions, signed with the newest key.
type Streams struct {
	Endpoints

	Sender Sender
	Keys   Keys
}

var _ streamsub.Poster = Streams{}

// Check returns an error if the URL is not allowed.
func (s Streams) Check(ctx context.Context, url string) error {
	return s.Endpoints.Check(ctx, sluice.Endpoint{URL: url})
}

// Post signs a notice and sends it.
func (s Streams) Post(ctx context.Context, url string, body []byte, at time.Time, timeout time.Duration) (streamsub.Answer, error) {
	signature, err := s.sign(body, at)
	if err != nil {
		return streamsub.Answer{}, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Webhook-Signature": {signature}}
	reply := s.Sender.Post(ctx, url, header, body, timeout)
	answer := streamsub.Answer{OK: reply.Outcome == sluice.Delivered, Error: reply.Error}
	if reply.Whole {
		answer.Body = reply.Body
	}
	return answer, nil
}

// KeyID returns the ID of the key that signs now.
func (s Streams) KeyID() string {
	id, _ := s.Keys.Newest()
	return KeyPrefix + id
}

// sign returns the signature header. The signed text starts with the time, followed by a JSON
// object, so it is never valid for another signature scheme.
func (s Streams) sign(body []byte, at time.Time) (string, error) {
	id, key := s.Keys.Newest()
	if key == nil {
		return "", errors.New("no signing key yet; retry")
	}
	t := strconv.FormatInt(at.Unix(), 10)
	signature := ed25519.Sign(key, append([]byte(t+"."), body...))
	return fmt.Sprintf("t=%s,kid=%s,ed25519=%s", t, KeyPrefix+id, base64.RawURLEncoding.EncodeToString(signature)), nil
}
