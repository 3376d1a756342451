package endpoint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// draft is a request under construction. It is for one goroutine and one request. sub, ev and a
// body from rendered are shared and must not be changed.
type draft struct {
	sub     *sluice.Subscription
	ev      *sluice.Event
	target  *url.URL
	number  int
	at      time.Time // time of signing; each attempt has its own (S1-67)
	secrets []string  // live secrets, newest first
	header  http.Header
	values  []string // values of the header, in one allocation
	body    []byte
	batch   []byte // the body of a batch
	hash    string // of the body; "": not computed yet

	rendered *renderings
	opts     *Options
}

// set sets a header. name must be canonical.
func (d *draft) set(name, value string) {
	d.values = append(d.values, value)
	n := len(d.values)
	d.header[name] = d.values[n-1 : n : n]
}

// request returns the request of an attempt and its body. The body is rendered once, so that the
// signed bytes are the sent ones (S1-70). request sets the hash of the body in a. An error means
// that the request can never be made (S4-63, S4-76). Codes: those of Check that need no DNS;
// Unprocessable; TooLarge, which Send turns into the reason of a dead letter. The caller must not
// change the body, which other requests may share.
func (s *Sender) request(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, a *sluice.Attempt, more ...*sluice.Event) (*http.Request, []byte, error) {
	u, err := s.checkURL(sub.Endpoint.URL)
	if err != nil {
		return nil, nil, err
	}
	if err := checkHeaders(sub.Endpoint.Headers); err != nil {
		return nil, nil, err
	}
	d := draft{
		sub: sub, ev: s.project(sub, ev), target: u, number: a.Number, at: a.StartedAt, secrets: sub.LiveSecrets(a.StartedAt), rendered: &s.rendered, opts: &s.opts,
	}
	if len(d.secrets) == 0 {
		return nil, nil, sluice.Errorf(sluice.Unprocessable, "the subscription has no live secret")
	}
	if ev.ID == "" {
		return nil, nil, sluice.Errorf(sluice.Unprocessable, "the event has no id")
	}
	d.header = make(http.Header, 8+len(sub.Endpoint.Headers)+len(ev.Extensions))
	d.values = make([]string, 0, 6+len(sub.Endpoint.Headers))
	for name, value := range sub.Endpoint.Headers {
		d.set(textproto.CanonicalMIMEHeaderKey(name), value)
	}
	d.set("User-Agent", s.agent)
	d.set(webhook.HeaderID, headerID(ev.ID))
	d.set(webhook.HeaderAttempt, strconv.Itoa(a.Number))
	if s.opts.Trace != nil {
		s.opts.Trace(ctx, d.header)
	}
	// Before packWithin, because the batch decides about the id that is signed.
	if sub.Policy.Batch.Max > 0 {
		a.Batch = s.packBatch(&d, more)
	}
	if err := d.packWithin(s.opts.MaxBody); err != nil {
		return nil, nil, err
	}
	if err := d.sign(s.opts.Keys); err != nil {
		return nil, nil, err
	}
	if a.PayloadHash = d.hash; d.hash == "" {
		a.PayloadHash = hashOf(d.body)
	}
	req := post(u, d.header)
	req.Close = a.Number > 1 // otherwise retries would keep using an address that DNS does not return any more, if it still responds
	return req, d.body, nil
}

// post returns a request without its body.
func post(u *url.URL, header http.Header) *http.Request {
	return &http.Request{Method: http.MethodPost, URL: u, Host: u.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

func hashOf(body []byte) string {
	hash := sha256.Sum256(body)
	return hex.EncodeToString(hash[:])
}

// headerID returns the event's id as a header value. It percent-encodes the id only if that has
// spaces or anything outside printable ASCII.
func headerID(id string) string {
	if percent(id, "") == id {
		return id
	}
	return percent(id, "%")
}

// packWithin is pack with a limit. It returns an error (TooLarge) if the body has more than limit
// bytes. It does not render data beyond the limit, because no envelope is smaller than the data.
func (d *draft) packWithin(limit int64) error {
	size := int64(len(d.ev.Data))
	if size <= limit {
		if err := d.pack(); err != nil {
			return err
		}
		size = int64(len(d.body))
	}
	if size > limit {
		return sluice.Errorf(sluice.TooLarge, "the request would be larger than webhooks.max_body, %d bytes; publish a reference to the data instead", limit)
	}
	return nil
}

// pack renders the body and sets the headers that describe it.
func (d *draft) pack() error {
	switch d.sub.Policy.Envelope {
	case sluice.EnvelopeCloudEvents, "":
		if d.batch != nil {
			d.set("Content-Type", batchType)
			d.body = d.batch
			return nil
		}
		d.set("Content-Type", structuredType)
		d.body, d.hash = d.rendered.of(d.ev)
	case sluice.EnvelopeBinary:
		setBinary(d.header, d.ev)
		return d.packRaw()
	case sluice.EnvelopeFact:
		d.set("Content-Type", jsonType)
		d.body = Fact(d.sub, d.ev)
	case sluice.EnvelopeAttempt:
		d.set("Content-Type", jsonType)
		body, err := attempt(d.sub, d.ev, d.number, d.at, d.secrets[0])
		if err != nil {
			return err
		}
		d.body = body
	case sluice.EnvelopeRaw:
		if reduced(d.sub) {
			return sluice.Errorf(sluice.Unprocessable, "the envelope raw cannot reference the rest of the data")
		}
		return d.packRaw()
	case sluice.EnvelopeTemplate:
		return d.packTemplate()
	case sluice.EnvelopeNotice: // this envelope has no event
		return sluice.Errorf(sluice.Unprocessable, "the envelope %q is for mode wake", d.sub.Policy.Envelope)
	default:
		return sluice.Errorf(sluice.Unprocessable, "the envelope %q is unknown", d.sub.Policy.Envelope)
	}
	return nil
}

// packTemplate renders the body by the subscription's template. Code Unprocessable without a
// template; otherwise the errors of Options.Render.
func (d *draft) packTemplate() (err error) {
	template := d.sub.Policy.Body
	if template == nil || d.opts.Render == nil {
		return sluice.Errorf(sluice.Unprocessable, "the envelope template has no policy.body")
	}
	var contentType string
	if d.body, contentType, err = d.opts.Render(template, d.ev, d.opts.MaxBody); err == nil {
		d.set("Content-Type", contentType)
	}
	return err
}

func (d *draft) packRaw() error {
	t := contentType(d.ev)
	if !isHeaderValue(t) {
		return sluice.Errorf(sluice.Unprocessable, "the event's content type %q is not a valid header", t)
	}
	d.set("Content-Type", t)
	d.body = d.ev.Data
	return nil
}

// sign sets the headers of the subscription's scheme and of no other (register C04). During a
// rotation, the schemes standard, ed25519 and rfc9421 sign with every live secret or key. The other
// schemes have room for one signature and use the newest secret (register C08).
func (d *draft) sign(keys KeyRing) error {
	switch d.sub.Policy.Signature.Scheme {
	case sluice.SchemeStandard, "":
		return d.signStandard()
	case sluice.SchemeEd25519:
		return d.signEd25519(keys)
	case sluice.SchemeT:
		d.set(webhook.HeaderSignature, webhook.SignT(d.secrets[0], d.at, d.body))
	case sluice.SchemeHeader:
		name := cmp.Or(d.sub.Policy.Signature.Name, webhook.DefaultHeader)
		if err := CheckHeaderName(name); err != nil {
			return err
		}
		d.set(textproto.CanonicalMIMEHeaderKey(name), webhook.SignHeader(d.secrets[0], d.body))
	case sluice.SchemeMessage:
		return d.signMessage(keys)
	default:
		return sluice.Errorf(sluice.Unprocessable, "the signature scheme %q is unknown", d.sub.Policy.Signature.Scheme)
	}
	return nil
}

func (d *draft) signStandard() error {
	signatures := make([]string, len(d.secrets))
	for i, secret := range d.secrets {
		signature, err := webhook.SignStandard(secret, d.header.Get(webhook.HeaderID), d.at, d.body)
		if err != nil {
			return sluice.Errorf(sluice.Unprocessable, "%s, as the signature scheme standard requires", err)
		}
		signatures[i] = signature
	}
	d.setTimestamp()
	d.set(webhook.HeaderSignature, strings.Join(signatures, " "))
	return nil
}

func (d *draft) signEd25519(keys KeyRing) error {
	if keys == nil {
		return sluice.Errorf(sluice.Unprocessable, "this server has no key for the signature scheme ed25519")
	}
	var signatures []string
	for _, key := range keys.SigningKeys() {
		signatures = append(signatures, webhook.SignEd25519(key.Key, d.header.Get(webhook.HeaderID), d.at, d.body))
	}
	d.setTimestamp()
	d.set(webhook.HeaderSignature, strings.Join(signatures, " "))
	return nil
}

// signMessage signs the method, the components of the URL, a digest of the body, and the headers
// that describe the event. The headers are in the order of their names, after the components of the
// URL. Call it after all headers are set.
func (d *draft) signMessage(keys KeyRing) error {
	if keys == nil {
		return sluice.Errorf(sluice.Unprocessable, "this server has no key for the signature scheme rfc9421")
	}
	hash := sha256.Sum256(d.body)
	d.hash = hex.EncodeToString(hash[:])
	d.set(webhook.HeaderDigest, webhook.DigestOf(hash[:]))
	components := webhook.URLComponents(d.target)
	for _, name := range slices.Sorted(maps.Keys(d.header)) {
		lower := strings.ToLower(name)
		switch {
		case lower == "content-digest", lower == "content-type", lower == "webhook-id", lower == "webhook-attempt", strings.HasPrefix(lower, "ce-"):
			components = append(components, webhook.Component{Name: lower, Value: d.header.Get(name)})
		}
	}
	input, signature := webhook.SignMessage(keys.SigningKeys(), d.at, components)
	d.set(webhook.HeaderMessageInput, input)
	d.set(webhook.HeaderMessageSignature, signature)
	return nil
}

func (d *draft) setTimestamp() {
	d.set(webhook.HeaderTimestamp, strconv.FormatInt(d.at.Unix(), 10))
}
