package sluice

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
)

// SecretPrefix is the prefix of a secret in Standard Webhooks' format, followed by the base64 of
// the key.
const SecretPrefix = "whsec_"

// Limits of a secret, in bytes of the key: S4-58 requires 32, Standard Webhooks allows 64.
const (
	MinSecretBytes = 32
	MaxSecretBytes = 64
)

const maxPlainSecret = 256

// NewSecret returns a random secret of 32 bytes in Standard Webhooks' format.
func NewSecret() (string, error) {
	key := make([]byte, MinSecretBytes)
	if _, err := rand.Read(key); err != nil {
		return "", fmt.Errorf("generate secret: %w", err)
	}
	return SecretPrefix + base64.StdEncoding.EncodeToString(key), nil
}

// CheckSecret returns an error unless the secret is "whsec_" and base64 of 32 to 64 bytes, or any
// other 32 to 256 bytes. Code SecretTooShort for fewer bytes (S4-58), otherwise InvalidRequest.
func CheckSecret(secret string) error {
	encoded, ok := strings.CutPrefix(secret, SecretPrefix)
	if !ok {
		return checkLength(len(secret), maxPlainSecret)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return Errorf(InvalidRequest, "secret: the part after %s is not base64", SecretPrefix).With("field", "endpoint.secret")
	}
	return checkLength(len(key), MaxSecretBytes)
}

func checkLength(got, most int) error {
	switch {
	case got < MinSecretBytes:
		return Errorf(SecretTooShort, "secret has %d bytes; use at least %d", got, MinSecretBytes).With("field", "endpoint.secret")
	case got > most:
		return Errorf(InvalidRequest, "secret has %d bytes; use at most %d", got, most).With("field", "endpoint.secret")
	}
	return nil
}

// CheckSecret is like the function CheckSecret, and also returns an error (InvalidRequest) if the
// scheme is Standard Webhooks' and the secret is not in its format.
func (s Scheme) CheckSecret(secret string) error {
	if err := CheckSecret(secret); err != nil {
		return err
	}
	if s == SchemeStandard && !strings.HasPrefix(secret, SecretPrefix) {
		return Errorf(InvalidRequest, "secret: the scheme %s requires %s and base64 of %d to %d bytes", s, SecretPrefix, MinSecretBytes, MaxSecretBytes).With("field", "endpoint.secret")
	}
	return nil
}

// SecretHint returns the secret's last four characters, which tell secrets apart; "" if the secret
// is too short to reveal them.
func SecretHint(secret string) string {
	if len(secret) < MinSecretBytes {
		return ""
	}
	return secret[len(secret)-4:]
}
