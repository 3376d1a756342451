package webhook_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/webhook"
)

// A handler verifies first and answers 2xx once the event is safe. It is all that a receiver of a
// subscription with the defaults needs.
func Example() {
	secret := "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldy1zZWNyZXQ=" // from creating the subscription
	hook := webhook.Receiver{Secrets: []string{secret}}
	handler := func(w http.ResponseWriter, r *http.Request) {
		d, err := hook.Receive(r)
		if err != nil {
			http.Error(w, err.Error(), webhook.Status(err))
			return
		}
		fmt.Println(d.ID, d.Type, d.Path, string(d.Data), "attempt", d.Attempt)
		w.WriteHeader(http.StatusNoContent)
	}

	// What Sluice sends:
	body := `{"specversion":"1.0","id":"e-1","source":"/shop","type":"order.paid","path":"/orders/7","data":{"total":12}}`
	now := time.Now()
	signature, err := webhook.SignStandard(secret, "e-1", now, []byte(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	req := &http.Request{Method: http.MethodPost, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	req.Header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	req.Header.Set(webhook.HeaderID, "e-1")
	req.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(webhook.HeaderSignature, signature)
	req.Header.Set(webhook.HeaderAttempt, "1")
	res := httptest.NewRecorder()
	handler(res, req)
	fmt.Println(res.Code)
	// Output:
	// e-1 order.paid /orders/7 {"total":12} attempt 1
	// 204
}

// During a rotation the receiver knows both secrets, and forgets the old one when it has expired.
func ExampleReceiver_rotation() {
	hook := webhook.Receiver{
		Scheme:  webhook.TSHA256,
		Secrets: []string{"the-new-secret-of-32-bytes-or-more", "the-old-secret-of-32-bytes-or-more"},
	}
	body := []byte(`{"n":1}`)
	header := http.Header{}
	header.Set(webhook.HeaderSignature, webhook.SignT("the-old-secret-of-32-bytes-or-more", time.Now(), body))
	fmt.Println(hook.Verify(header, body))
	// Output: <nil>
}

// A subscription with a batch sends several events in one request.
func ExampleReceiver_ReceiveBatch() {
	secret := "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldy1zZWNyZXQ="
	hook := webhook.Receiver{Secrets: []string{secret}, MaxBytes: 10 << 20}
	body := []byte(`[{"specversion":"1.0","id":"e-1","source":"/shop","type":"order.paid","data":{"n":1}},
		{"specversion":"1.0","id":"e-2","source":"/shop","type":"order.sent","data":{"n":2}}]`)
	now := time.Now()
	signature, err := webhook.SignStandard(secret, "batch_1", now, body)
	if err != nil {
		fmt.Println(err)
		return
	}
	req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/hook", bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/cloudevents-batch+json")
	req.Header.Set(webhook.HeaderID, "batch_1")
	req.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(webhook.HeaderSignature, signature)

	events, err := hook.ReceiveBatch(req)
	for _, ev := range events {
		fmt.Println(ev.ID, ev.Type, string(ev.Data))
	}
	fmt.Println(err)
	// Output:
	// e-1 order.paid {"n":1}
	// e-2 order.sent {"n":2}
	// <nil>
}

// A receiver of the scheme ed25519 holds no secret: the server publishes its key at
// /.well-known/jwks.json.
func ExampleParseKeys() {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) // the server's
	jwks := `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":"O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik"}]}`

	keys, err := webhook.ParseKeys([]byte(jwks))
	if err != nil {
		fmt.Println(err)
		return
	}
	hook := webhook.Receiver{Scheme: webhook.Ed25519, Keys: keys}
	now, body := time.Now(), []byte(`{"n":1}`)
	header := http.Header{}
	header.Set(webhook.HeaderID, "e-1")
	header.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(webhook.HeaderSignature, webhook.SignEd25519(key, "e-1", now, body))
	fmt.Println(hook.Verify(header, body))
	// Output: <nil>
}

// A request of another sender is refused.
func ExampleReceiver_Verify() {
	hook := webhook.Receiver{Scheme: webhook.Header, Secrets: []string{"a-secret-of-thirty-two-bytes-or-more"}}
	header := http.Header{}
	header.Set(webhook.DefaultHeader, webhook.SignHeader("a guess", []byte(`{}`)))
	fmt.Println(hook.Verify(header, []byte(`{}`)))
	// Output: webhook: no signature matches
}

// The envelope Attempt has a second signature in its body, over the canonical form of the rest. Receive verifies both;
// VerifyAttempt verifies the inner one alone.
func ExampleReceiver_VerifyAttempt() {
	secret := "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldy1zZWNyZXQ=" // as it was given, prefix and all
	unsigned := `{"event":{"eventId":"e-1","eventType":"a.b","payload":{"n":1.0}},"attempt":1,"timestamp":"2026-11-22T10:00:00Z"}`
	signature, err := webhook.SignAttempt(secret, []byte(unsigned))
	if err != nil {
		fmt.Println(err)
		return
	}
	body := strings.TrimSuffix(unsigned, "}") + `,"signature":"` + signature + `"}`

	hook := webhook.Receiver{
		Scheme: webhook.Header, Envelope: webhook.Attempt, Secrets: []string{secret},
		Now: func() time.Time { return time.Date(2026, 11, 22, 10, 0, 30, 0, time.UTC) },
	}
	fmt.Println(hook.VerifyAttempt([]byte(body)))
	fmt.Println(hook.VerifyAttempt([]byte(strings.Replace(body, "e-1", "e-2", 1))))
	// Output:
	// <nil>
	// webhook: no signature matches
}
