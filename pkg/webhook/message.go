package webhook

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// The headers of the scheme Message (RFC 9421, RFC 9530).
const (
	HeaderMessageInput     = "Signature-Input"
	HeaderMessageSignature = "Signature"
	HeaderDigest           = "Content-Digest"
)

const (
	paramsName     = "@signature-params"
	digestSHA256   = "sha-256"
	labelPrefix    = "sig"
	createdParam   = "created"
	maxMessageHead = 16 << 10 // bytes of Signature-Input that are parsed
)

// SigningKey is a private key with the ID of its public key.
type SigningKey struct {
	ID  string
	Key ed25519.PrivateKey
}

// Component is a part of a request that the scheme Message signs: a derived component such as "@method", or the
// name of a header in lower case, with its value.
type Component struct{ Name, Value string }

// DigestOf returns the value of Content-Digest for a body with this SHA-256 hash.
func DigestOf(hash []byte) string {
	return digestSHA256 + "=:" + base64.StdEncoding.EncodeToString(hash) + ":"
}

// SignMessage returns the values of Signature-Input and Signature, with a signature by each key:
// sig1, sig2, …. The keys' IDs must consist of printable ASCII without quotes and backslashes.
func SignMessage(keys []SigningKey, at time.Time, components []Component) (input, signature string) {
	names := make([]string, len(components))
	for i, c := range components {
		names[i] = `"` + c.Name + `"`
	}
	var inputs, signatures []string
	for i, key := range keys {
		label := fmt.Sprintf("%s%d=", labelPrefix, i+1)
		params := fmt.Sprintf(`(%s);%s=%d;keyid="%s"`, strings.Join(names, " "), createdParam, at.Unix(), key.ID)
		inputs = append(inputs, label+params)
		signed := ed25519.Sign(key.Key, signatureBase(components, params))
		signatures = append(signatures, label+":"+base64.StdEncoding.EncodeToString(signed)+":")
	}
	return strings.Join(inputs, ", "), strings.Join(signatures, ", ")
}

// signatureBase returns the bytes that are signed (RFC 9421, 2.5).
func signatureBase(components []Component, params string) []byte {
	var base strings.Builder
	for _, c := range components {
		fmt.Fprintf(&base, "\"%s\": %s\n", c.Name, c.Value)
	}
	fmt.Fprintf(&base, "\"%s\": %s", paramsName, params)
	return []byte(base.String())
}

// VerifyRequest is Verify for a request whose body was read. The scheme Message requires it,
// because it also signs the method and the URL.
func (r *Receiver) VerifyRequest(req *http.Request, body []byte) error {
	if r.Scheme != Message {
		return r.Verify(req.Header, body)
	}
	if len(r.Keys) == 0 {
		return ErrSetup
	}
	inputs, signatures, err := messageSignatures(req.Header)
	if err != nil {
		return err
	}
	if err := checkDigest(req.Header, body); err != nil {
		return err
	}
	result := ErrUnsigned
	for _, label := range inputs.Names()[:min(len(inputs.Names()), maxSignatures)] {
		err := r.verifyMessage(req, label, inputs, signatures)
		if err == nil {
			return nil
		}
		if result == ErrUnsigned { //nolint:errorlint // it is a variable of this function
			result = err
		}
	}
	return result
}

func messageSignatures(header http.Header) (inputs, signatures *httpsfv.Dictionary, err error) {
	given := header.Values(HeaderMessageInput)
	if len(strings.Join(given, "")) > maxMessageHead {
		return nil, nil, ErrUnsigned
	}
	if inputs, err = httpsfv.UnmarshalDictionary(given); err != nil {
		return nil, nil, ErrUnsigned
	}
	if signatures, err = httpsfv.UnmarshalDictionary(header.Values(HeaderMessageSignature)); err != nil {
		return nil, nil, ErrUnsigned
	}
	return inputs, signatures, nil
}

// checkDigest returns an error unless Content-Digest has the SHA-256 hash of the body.
func checkDigest(header http.Header, body []byte) error {
	digests, err := httpsfv.UnmarshalDictionary(header.Values(HeaderDigest))
	if err != nil {
		return ErrUnsigned
	}
	given, _ := digests.Get(digestSHA256)
	item, ok := given.(httpsfv.Item)
	if !ok {
		return ErrUnsigned
	}
	hash := sha256.Sum256(body)
	if is, ok := item.Value.([]byte); !ok || !contains([][]byte{is}, hash[:]) {
		return ErrSignature
	}
	return nil
}

// verifyMessage verifies one of the signatures of a request.
func (r *Receiver) verifyMessage(req *http.Request, label string, inputs, signatures *httpsfv.Dictionary) error {
	input, _ := inputs.Get(label)
	list, ok := input.(httpsfv.InnerList)
	if !ok {
		return ErrUnsigned
	}
	signature, _ := signatures.Get(label)
	item, ok := signature.(httpsfv.Item)
	if !ok {
		return ErrUnsigned
	}
	signed, ok := item.Value.([]byte)
	if !ok {
		return ErrUnsigned
	}
	components, err := r.components(req, list)
	if err != nil {
		return err
	}
	created, _ := list.Params.Get(createdParam)
	seconds, ok := created.(int64)
	if !ok {
		return ErrUnsigned
	}
	if err := r.checkTime(time.Unix(seconds, 0)); err != nil {
		return err
	}
	params, err := httpsfv.Marshal(httpsfv.List{list})
	if err != nil {
		return ErrUnsigned
	}
	base := signatureBase(components, params)
	for _, key := range r.Keys {
		if len(key) != ed25519.PublicKeySize {
			return ErrSetup
		}
		if ed25519.Verify(key, base, signed) {
			return nil
		}
	}
	return ErrSignature
}

// components returns the covered components with their values in the request. It returns
// ErrUnsigned if a required component is missing or a component is unknown.
func (r *Receiver) components(req *http.Request, list httpsfv.InnerList) ([]Component, error) {
	all := make([]Component, 0, len(list.Items))
	var names []string
	for _, item := range list.Items {
		name, ok := item.Value.(string)
		value, known := r.component(req, name)
		if !ok || !known || len(item.Params.Names()) > 0 || slices.Contains(names, name) {
			return nil, ErrUnsigned
		}
		names = append(names, name)
		all = append(all, Component{name, value})
	}
	for _, required := range []string{"@method", "@authority", "@path", "@query", "content-digest", "content-type", "webhook-id"} {
		if !slices.Contains(names, required) {
			return nil, ErrUnsigned
		}
	}
	return all, nil
}

// component returns a component's value in the request.
func (r *Receiver) component(req *http.Request, name string) (value string, known bool) {
	switch {
	case name == "@method":
		return req.Method, true
	case name == "@authority":
		return r.authority(req), true
	case name == "@path":
		return cmp.Or(req.URL.EscapedPath(), "/"), true
	case name == "@query":
		return "?" + req.URL.RawQuery, true
	case strings.HasPrefix(name, "@"):
		return "", false
	}
	values, known := req.Header[http.CanonicalHeaderKey(name)]
	trimmed := make([]string, len(values))
	for i, v := range values {
		trimmed[i] = strings.TrimSpace(v)
	}
	return strings.Join(trimmed, ", "), known
}

// authority returns the host to which the request was sent.
func (r *Receiver) authority(req *http.Request) string {
	host := req.Host
	if at, err := url.Parse(r.URL); err == nil {
		host = cmp.Or(at.Host, host)
	}
	return Authority(host)
}

// Authority returns the value of the component "@authority" for a host: in lower case, without a
// default port.
func Authority(host string) string {
	host = strings.ToLower(host)
	return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
}

// URLComponents returns the components of a POST to a URL.
func URLComponents(u *url.URL) []Component {
	return []Component{
		{"@method", http.MethodPost}, {"@authority", Authority(u.Host)}, {"@path", cmp.Or(u.EscapedPath(), "/")}, {"@query", "?" + u.RawQuery},
	}
}
