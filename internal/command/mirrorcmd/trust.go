package mirrorcmd

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
)

type mirrorKeysCmd struct {
	NS string `arg:"" name:"namespace" help:"Namespace."`
}

// Help says how to use the keys at the importer.
func (*mirrorKeysCmd) Help() string {
	return `The first key signs. With -o json, the output is the JWK set for sluice mirror trust at the importer:

  sluice mirror keys orders -o json >/media/courier/orders.keys`
}

// Run shows the keys. The key that signs now is first; older ones still verify earlier bundles.
func (c *mirrorKeysCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	keys, err := api.BundleKeys(ctx, c.NS)
	if err != nil {
		return err
	}
	return s.Show(keySet{keys}, func() error {
		rows := make([][]string, len(keys))
		for i, k := range keys {
			rows[i] = []string{k.KeyID, fingerprint(k.KeyID)}
		}
		return s.Table("KEY | FINGERPRINT", rows)
	})
}

// keySet is a JWK set (RFC 7517).
type keySet struct {
	Keys []client.BundleKey `json:"keys"`
}

// fingerprint returns the SHA-256 hash in a key's ID in groups of digits, so that people can read
// it aloud. A text that is not base64url is returned unchanged.
func fingerprint(kid string) string {
	sum, err := base64.RawURLEncoding.DecodeString(kid)
	if err != nil {
		return kid
	}
	text := hex.EncodeToString(sum)
	var groups []string
	for ; len(text) > 4; text = text[4:] {
		groups = append(groups, text[:4])
	}
	return strings.Join(append(groups, text), " ")
}

// names reports whether text is a key's ID, or the beginning of its fingerprint. An ID may begin
// with a dash, which users of a shell would have to escape. At least 8 hexadecimal digits are
// required; spaces and case do not matter.
func names(text, kid string) bool {
	digits := strings.ToLower(strings.ReplaceAll(text, " ", ""))
	return text == kid || len(digits) >= 8 && strings.HasPrefix(strings.ReplaceAll(fingerprint(kid), " ", ""), digits)
}

type mirrorTrustCmd struct {
	terminal.Confirmation

	NS     string `arg:"" name:"namespace" help:"Namespace with the mirror."`
	File   string `arg:"" help:"File with the keys, as sluice mirror keys -o json writes it; - reads stdin."`
	Source string `help:"URL of the source's namespace; default: that of the only mirror in the namespace without a token." placeholder:"URL"`
	Key    string `name:"kid" help:"Key of the file, by its ID or the beginning of its fingerprint; default: the first, which signs." placeholder:"KEY"`
}

// Help explains the fingerprint.
func (*mirrorTrustCmd) Help() string {
	return `Bundles of the source are imported if a trusted key signed them. Compare the fingerprint with that of sluice mirror keys
at the source, by telephone or in person: another key can write into the mirror.`
}

// Run trusts the key. It asks, or requires --yes, because a wrong key can write into the mirror.
// Code Conflict for a key that was revoked: a revocation is permanent.
func (c *mirrorTrustCmd) Run(ctx context.Context, s *terminal.Session) error {
	key, err := c.key(s)
	if err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	source := c.Source
	if source == "" {
		if source, err = onlySource(ctx, api, c.NS); err != nil {
			return err
		}
	}
	if err := c.Confirm(s, terminal.Question("Key %s\nof %s\nhas the fingerprint %s.\nIs it the one that the source sees?", key.KeyID, source, fingerprint(key.KeyID))); err != nil {
		return err
	}
	is, err := api.TrustKey(ctx, c.NS, key, source)
	if err != nil {
		return err
	}
	return s.Show(is, func() error {
		return s.Say("%s imports bundles of %s that key %s signed.\nFingerprint: %s", c.NS, is.Source, is.KeyID, fingerprint(is.KeyID))
	})
}

// maxKeys limits the size of a file with keys.
const maxKeys = 1 << 20

// key reads the key, from a JWK set or a single JWK. It reads at most maxKeys bytes, and returns
// the first key that matches --kid, or the first.
func (c *mirrorTrustCmd) key(s *terminal.Session) (client.BundleKey, error) {
	in := s.Stdin
	if c.File != "-" {
		f, err := os.Open(filepath.Clean(c.File))
		if err != nil {
			return client.BundleKey{}, err
		}
		defer func() { _ = f.Close() }() // the file was only read
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxKeys))
	if err != nil {
		return client.BundleKey{}, fmt.Errorf("read keys: %w", err)
	}
	var set struct{ Keys []json.RawMessage }
	// A file may have a JWK set or a single key.
	if err := json.Unmarshal(text, &set); err != nil || len(set.Keys) == 0 {
		set.Keys = []json.RawMessage{text}
	}
	for _, one := range set.Keys {
		key, err := bundle.ParseJWK(one)
		if err != nil {
			return client.BundleKey{}, fmt.Errorf("%s: %w", c.File, err)
		}
		if c.Key == "" || names(c.Key, key.KeyID) {
			return client.BundleKey(key), nil
		}
	}
	return client.BundleKey{}, fmt.Errorf("%s has no key %s", c.File, c.Key)
}

// onlySource returns the source of a namespace's mirror that gets bundles, if there is exactly one.
// Several are a usage error that lists them. It reads all mirrors of the namespace.
func onlySource(ctx context.Context, api *client.Client, ns string) (string, error) {
	mirrors, err := terminal.Collect(0, func(cursor string, most int) (client.Page[client.MirrorSummary], error) {
		return api.Mirrors(ctx, client.MirrorsQuery{Namespace: ns, Limit: most, Cursor: cursor})
	})
	if err != nil {
		return "", err
	}
	var sources []string
	for i := range mirrors {
		if mirrors[i].Imported() {
			sources = append(sources, mirrors[i].Source)
		}
	}
	switch len(sources) {
	case 0:
		return "", errors.New("no mirror of " + ns + " gets bundles: create one with sluice mirror add URL, or name the --source")
	case 1:
		return sources[0], nil
	}
	return "", terminal.Usagef("several mirrors of %s get bundles; name the --source: %s", ns, strings.Join(sources, ", "))
}

type mirrorTrustedCmd struct {
	NS string `arg:"" name:"namespace" help:"Namespace with the mirror."`
}

// Run lists the keys.
func (c *mirrorTrustedCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	keys, err := api.TrustedKeys(ctx, c.NS)
	if err != nil {
		return err
	}
	return s.Show(keys, func() error {
		rows := make([][]string, len(keys))
		for i, k := range keys {
			rows[i] = []string{k.KeyID, k.Source, terminal.FormatTime(k.AddedAt), terminal.FormatTime(k.RevokedAt), fingerprint(k.KeyID)}
		}
		return s.Table("KEY | SOURCE | ADDED | REVOKED | FINGERPRINT", rows)
	})
}

type mirrorDistrustCmd struct {
	terminal.Confirmation

	NS  string `arg:"" name:"namespace" help:"Namespace with the mirror."`
	Key string `arg:"" name:"key" help:"ID of the key, or the beginning of its fingerprint."`
}

// Run revokes the key. It cannot be undone, and asks first. If the fingerprints of several keys
// begin so, the first of the list is revoked; the question names it.
func (c *mirrorDistrustCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	keys, err := api.TrustedKeys(ctx, c.NS)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(keys, func(k client.TrustedKey) bool { return names(c.Key, k.KeyID) })
	if at < 0 {
		return fmt.Errorf("%s trusts no key %s; sluice mirror trusted %s lists them", c.NS, c.Key, c.NS)
	}
	kid := keys[at].KeyID
	if err := c.Confirm(s, terminal.Question("Revoke key %s (%s) for good? No bundle that it signed is imported any more.", kid, fingerprint(kid))); err != nil {
		return err
	}
	if err := api.DistrustKey(ctx, c.NS, kid); err != nil {
		return err
	}
	return cmdkit.Done(s, "Revoked key %s.", kid)
}
