package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

const (
	privatePrefix = "whsk_" // of Standard Webhooks, before the base64 of an Ed25519 key
	publicPrefix  = "whpk_"
	maxRequest    = 64 << 20 // bytes of a request that verify and sign read
)

// keyFlags are the keys that verify requests. Several secrets and keys are alternatives.
type keyFlags struct {
	Secret     []string `help:"Secret of the subscription; two during a rotation." env:"SLUICE_SECRET" placeholder:"SECRET" sep:"none"`
	SecretFile []string `name:"secret-file" help:"File with a secret." type:"path" placeholder:"FILE" sep:"none"`
	JWKS       string   `name:"jwks" help:"File with the server's public keys (/.well-known/jwks.json), for the schemes ed25519 and rfc9421." type:"path" placeholder:"FILE"`
	PublicKey  []string `name:"public-key" help:"Public key whpk_…, for the schemes ed25519 and rfc9421." placeholder:"KEY" sep:"none"`
	Scheme     string   `help:"Signature scheme: standard, ed25519, t-sha256, header or rfc9421; default: that of the request." placeholder:"NAME" enum:",standard,ed25519,t-sha256,header,rfc9421" default:""`
	SignedIn   string   `name:"signed-in" help:"Header with the signature of the scheme header." placeholder:"NAME"`
}

// given reports whether there is a key to verify with.
func (k *keyFlags) given() bool {
	return len(k.Secret)+len(k.SecretFile)+len(k.PublicKey) > 0 || k.JWKS != ""
}

// receiver returns a Receiver that verifies requests with the keys. Keys are not checked against
// the scheme; a missing one makes every verification fail.
func (k *keyFlags) receiver() (*webhook.Receiver, error) {
	r := &webhook.Receiver{Scheme: webhook.Scheme(k.Scheme), Secrets: k.Secret, Header: k.SignedIn, MaxBytes: maxRequest}
	for _, file := range k.SecretFile {
		data, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return nil, fmt.Errorf("read the secret: %w", err)
		}
		r.Secrets = append(r.Secrets, strings.TrimSpace(string(data)))
	}
	if k.JWKS != "" {
		data, err := os.ReadFile(filepath.Clean(k.JWKS))
		if err != nil {
			return nil, fmt.Errorf("read the public keys: %w", err)
		}
		if r.Keys, err = webhook.ParseKeys(data); err != nil {
			return nil, fmt.Errorf("%s: %w", k.JWKS, err)
		}
	}
	for _, text := range k.PublicKey {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, publicPrefix))
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, terminal.Usagef("--public-key: write %s and the base64 of an Ed25519 key", publicPrefix)
		}
		r.Keys = append(r.Keys, key)
	}
	return r, nil
}

// schemeOf returns the scheme of a signed request: the scheme that the user chose, or the one that
// the headers show. Without a choice the headers decide, in this order: rfc9421, header, t-sha256,
// ed25519, standard.
func schemeOf(r *webhook.Receiver, header http.Header) webhook.Scheme {
	signature := header.Get(webhook.HeaderSignature)
	if r.Scheme == "" && signature == "" && len(r.Keys) > 0 && header.Get(webhook.HeaderMessageInput) != "" {
		return webhook.Message
	}
	switch {
	case r.Scheme != "":
		return r.Scheme
	case r.Header != "" && header.Get(r.Header) != "", signature == "" && header.Get(webhook.DefaultHeader) != "":
		return webhook.Header
	case strings.HasPrefix(signature, "t="):
		return webhook.TSHA256
	case strings.Contains(signature, "v1a,") && (len(r.Keys) > 0 || !strings.Contains(signature, "v1,")):
		return webhook.Ed25519
	}
	return webhook.Standard
}

// verifyRequest verifies the signature of a request, and returns its scheme. r is not changed, and
// may be used by several goroutines.
func verifyRequest(r *webhook.Receiver, req *http.Request, body []byte) (webhook.Scheme, error) {
	one := *r
	one.Scheme = schemeOf(r, req.Header)
	if err := one.VerifyRequest(req, body); err != nil {
		return one.Scheme, errors.New(strings.TrimPrefix(err.Error(), "webhook: "))
	}
	return one.Scheme, nil
}

// verifyCmd verifies a request. URL replaces that of the request line; with Header, the file has no
// request line.
type verifyCmd struct {
	keyFlags

	File   string   `arg:"" optional:"" help:"Request: header lines, an empty line, and the body; with --header, the body only. Default: stdin."`
	Header []string `short:"H" help:"Header of the request, \"webhook-id: msg_1\"; repeatable." placeholder:"LINE" sep:"none"`
	URL    *url.URL `name:"url" help:"URL to which the request was sent, for the scheme rfc9421; default: that of its request line and its header Host." placeholder:"URL"`
	AnyAge bool     `name:"any-age" help:"Accept a signature of any age, not only of the last five minutes."`
}

// Help explains the result.
func (*verifyCmd) Help() string {
	return "The command says whether the signature of a request is valid, and ends with status 1 if it is not. No server is asked."
}

// Run verifies the request. To name a remedy in the error, it tries small changes: any age, and a
// line break more or less at the end.
func (c *verifyCmd) Run(s *terminal.Session) error {
	if !c.given() {
		return terminal.Usagef("a key is required: --secret, --secret-file, --jwks or --public-key")
	}
	r, err := c.receiver()
	if err != nil {
		return err
	}
	req, body, err := requestOf(s, c.File, c.Header)
	if err != nil {
		return err
	}
	if c.URL != nil {
		req.URL, req.Host = c.URL, c.URL.Host
	}
	if c.AnyAge {
		r.Tolerance = 1<<63 - 1
	}
	if schemeOf(r, req.Header) == webhook.Message && req.Host == "" {
		return terminal.Usagef("the scheme %s signs the URL, too: pass --url, or begin the file with the request line and the header Host", webhook.Message)
	}
	scheme, err := verifyRequest(r, req, body)
	if err != nil {
		return sluice.Errorf(sluice.InvalidRequest, "the signature is not valid (scheme %s): %s%s", scheme, err, remedy(*r, scheme, req, body))
	}
	return s.Show(map[string]any{"valid": true, "scheme": scheme}, func() error { return s.Say("The signature is valid (scheme %s).", scheme) })
}

// remedy says which change of the command would make a signature valid.
func remedy(r webhook.Receiver, scheme webhook.Scheme, req *http.Request, body []byte) string {
	r.Scheme = scheme
	r.Tolerance = 1<<63 - 1
	if r.VerifyRequest(req, body) == nil {
		return "; it is right, but not of the last five minutes: compare the clocks, or pass --any-age"
	}
	for change, other := range map[string][]byte{
		"without the final line break": bytes.TrimRight(body, "\r\n"), "with a line break at its end": append(bytes.Clone(body), '\n'),
	} {
		if r.VerifyRequest(req, other) == nil {
			return "; the body is right " + change + ": verify the bytes as they came"
		}
	}
	if scheme == webhook.Message {
		return fmt.Sprintf("; compare the keys, the body (the bytes as they came) and the URL of the endpoint (here %s %s%s)", req.Method, req.Host, req.URL.RequestURI())
	}
	return "; compare the secret (all of it, with whsec_) and the body (the bytes as they came, not parsed and written again)"
}

// requestOf reads a request. With header lines, the file is the body. It reads at most maxRequest
// bytes. The method is POST unless the file names one.
func requestOf(s *terminal.Session, file string, lines []string) (*http.Request, []byte, error) {
	in := s.Stdin
	if file != "" && file != "-" {
		f, err := os.Open(filepath.Clean(file))
		if err != nil {
			return nil, nil, fmt.Errorf("read the request: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	reader := bufio.NewReader(io.LimitReader(in, maxRequest))
	req := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/"}}
	if err := headOf(req, reader, lines); err != nil {
		return nil, nil, err
	}
	req.Host = req.Header.Get("Host")
	body, err := io.ReadAll(reader)
	if err != nil {
		return nil, nil, fmt.Errorf("read the request: %w", err)
	}
	return req, body, nil
}

// headOf sets the headers of a request, from the given lines or from the beginning of the file.
func headOf(req *http.Request, reader *bufio.Reader, lines []string) error {
	req.Header = http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return terminal.Usagef("--header %q: write \"name: value\"", line)
		}
		req.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if len(lines) > 0 {
		return nil
	}
	if err := requestLine(req, reader); err != nil {
		return err
	}
	fields, err := textproto.NewReader(reader).ReadMIMEHeader()
	if err != nil {
		return terminal.Usagef("the request needs header lines, an empty line and the body; or pass --header and the body alone: %w", err)
	}
	req.Header = http.Header(fields)
	return nil
}

// requestLine sets the URL of the request from a line such as "POST /hook HTTP/1.1", if there is
// one.
func requestLine(req *http.Request, reader *bufio.Reader) error {
	begin, err := reader.Peek(5)
	if err != nil || string(begin) != "POST " {
		return nil //nolint:nilerr // without a request line, the headers begin at once
	}
	line, err := reader.ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	target, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "POST ")), " ")
	if req.URL, err = url.ParseRequestURI(target); err != nil {
		return terminal.Usagef("the request line %q: write POST, the path and the version: %w", strings.TrimSpace(line), err)
	}
	return nil
}

// signCmd signs a body. The secret is not compared with that of a server.
type signCmd struct {
	File     string    `arg:"" optional:"" help:"File with the body. Default: stdin."`
	Secret   string    `help:"Secret; whsk_… is a private key, for the schemes ed25519 and rfc9421." env:"SLUICE_SECRET" placeholder:"SECRET" required:""`
	Scheme   string    `help:"Signature scheme: standard, ed25519, t-sha256, header or rfc9421." placeholder:"NAME" enum:"standard,ed25519,t-sha256,header,rfc9421" default:"standard"`
	SignedIn string    `name:"signed-in" help:"Header with the signature of the scheme header." placeholder:"NAME" default:"X-Fole-Signature"`
	ID       string    `help:"webhook-id of the request." default:"msg_test" placeholder:"ID"`
	At       time.Time `help:"Time of the signature; default: now." placeholder:"TIME"`
	URL      *url.URL  `name:"url" help:"URL of the receiver, for the scheme rfc9421." placeholder:"URL"`
	Type     string    `name:"content-type" help:"content-type of the request, for the scheme rfc9421." placeholder:"TYPE" default:"application/json"`
	KeyID    string    `name:"key-id" help:"kid of the key, for the scheme rfc9421." placeholder:"ID" default:"test"`
	Request  bool      `help:"Print the whole request, as sluice verify reads it."`
}

// Help explains the output.
func (*signCmd) Help() string {
	return "The command prints the headers that sign a body, for tests of a receiver. No server is asked."
}

// Run prints the headers, or the request. In each scheme, the same body, ID and time give the same
// signature.
func (c *signCmd) Run(s *terminal.Session) error {
	// With a header, the whole file is the body.
	_, body, err := requestOf(s, c.File, []string{"x: "})
	if err != nil {
		return err
	}
	if c.At.IsZero() {
		c.At = time.Now()
	}
	headers, err := c.headers(body)
	if err != nil {
		return err
	}
	if s.IsJSON() {
		values := map[string]string{}
		for _, header := range headers {
			values[header[0]] = header[1]
		}
		// The table is not reached in this format.
		return s.Show(values, nil)
	}
	var text bytes.Buffer
	for _, header := range headers {
		fmt.Fprintf(&text, "%s: %s\n", header[0], header[1])
	}
	if c.Request {
		if c.Scheme == string(webhook.Message) {
			line := fmt.Sprintf("POST %s HTTP/1.1\nhost: %s\n", c.URL.RequestURI(), c.URL.Host)
			text = *bytes.NewBufferString(line + text.String())
		}
		text.WriteByte('\n')
		text.Write(body)
	}
	return s.PrintText(text.Bytes(), nil)
}

// headers returns the names and values of the headers that sign the body. Their order is that of
// the printed request.
func (c *signCmd) headers(body []byte) ([][2]string, error) {
	head := [][2]string{{"webhook-id", c.ID}, {"webhook-timestamp", strconv.FormatInt(c.At.Unix(), 10)}}
	switch webhook.Scheme(c.Scheme) {
	case webhook.Ed25519:
		key, err := privateKey(c.Secret)
		if err != nil {
			return nil, err
		}
		return append(head, [2]string{"webhook-signature", webhook.SignEd25519(key, c.ID, c.At, body)}), nil
	case webhook.Message:
		return c.message(body)
	case webhook.TSHA256:
		return [][2]string{{"webhook-id", c.ID}, {"webhook-signature", webhook.SignT(c.Secret, c.At, body)}}, nil
	case webhook.Header:
		return [][2]string{{"webhook-id", c.ID}, {strings.ToLower(c.SignedIn), webhook.SignHeader(c.Secret, body)}}, nil
	case webhook.Standard:
	}
	signature, err := webhook.SignStandard(c.Secret, c.ID, c.At, body)
	if err != nil {
		return nil, terminal.Usage(fmt.Errorf("--secret: %w", err))
	}
	return append(head, [2]string{"webhook-signature", signature}), nil
}

// message returns the names and values of the headers of the scheme rfc9421.
func (c *signCmd) message(body []byte) ([][2]string, error) {
	key, err := privateKey(c.Secret)
	if err != nil {
		return nil, err
	}
	if c.URL == nil || c.URL.Host == "" || strings.ContainsAny(c.KeyID, "\"\\") {
		return nil, terminal.Usagef("the scheme %s signs the URL: pass --url https://receiver.example/hook; a --key-id has no quotes and backslashes", webhook.Message)
	}
	hash := sha256.Sum256(body)
	head := [][2]string{{"content-digest", webhook.DigestOf(hash[:])}, {"content-type", c.Type}, {"webhook-id", c.ID}}
	components := webhook.URLComponents(c.URL)
	for _, header := range head {
		components = append(components, webhook.Component{Name: header[0], Value: header[1]})
	}
	input, signature := webhook.SignMessage([]webhook.SigningKey{{ID: c.KeyID, Key: key}}, c.At, components)
	return append(head, [2]string{"signature-input", input}, [2]string{"signature", signature}), nil
}

// privateKey reads a key of the schemes ed25519 and rfc9421: a seed of 32 bytes, or the key of 64.
func privateKey(secret string) (ed25519.PrivateKey, error) {
	text, ok := strings.CutPrefix(secret, privatePrefix)
	data, err := base64.StdEncoding.DecodeString(text)
	switch {
	case !ok || err != nil:
	case len(data) == ed25519.SeedSize:
		return ed25519.NewKeyFromSeed(data), nil
	case len(data) == ed25519.PrivateKeySize:
		return data, nil
	}
	return nil, terminal.Usagef("--secret: for the schemes ed25519 and rfc9421, write %s and the base64 of a private key", privatePrefix)
}
