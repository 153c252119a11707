package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-jose/go-jose/v4"

	"github.com/weir-limits/weir/limiter/caller"
)

// checkout is the clone of this repository that the command runs in, with what is
// this machine's own and in no commit: the keys, below .weir.
type checkout struct{ root string }

// localTable is the table on DynamoDB Local.
const localTable = "weir"

// The issuer and the audience of tokens that are made here.
const (
	localIssuer    = "weir-local"
	localAudience  = "weir-local"
	localAlgorithm = jose.EdDSA
)

// findCheckout looks for the repository from the working directory upward.
func findCheckout() (checkout, error) {
	dir, err := os.Getwd()
	if err != nil {
		return checkout{}, err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "functions", "rules.json")); err == nil {
			return checkout{dir}, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return checkout{}, errors.New("not inside a checkout of Weir: no functions/rules.json here or above")
		}
		dir = parent
	}
}

func (c checkout) path(parts ...string) string {
	return filepath.Join(append([]string{c.root}, parts...)...)
}

// The files below .weir.
func (c checkout) privateKeyFile() string   { return c.path(".weir", "jwt-key.json") }
func (c checkout) publicKeysFile() string   { return c.path(".weir", "jwks.json") }
func (c checkout) apiKeysFile() string      { return c.path(".weir", "apikeys.json") }
func (c checkout) apiKeySecretFile() string { return c.path(".weir", "apikey-secret") }
func (c checkout) subjectKeyFile() string   { return c.path(".weir", "subject-key") }
func (c checkout) metricsFile() string      { return c.path(".weir", "metrics.log") }

// signingKey returns the key that signs local tokens, and makes it if there is none,
// and likewise the document of its public half.
func (c checkout) signingKey() (jose.JSONWebKey, error) {
	var key jose.JSONWebKey
	document, err := os.ReadFile(c.privateKeyFile())
	if err == nil {
		if err := json.Unmarshal(document, &key); err != nil {
			return key, fmt.Errorf("%s: %w: remove .weir to start anew", c.privateKeyFile(), err)
		}
		if exists(c.publicKeysFile()) {
			return key, nil
		}
		return key, c.writePublicKey(key)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return key, err
	}
	key = jose.JSONWebKey{Key: private, KeyID: "local-" + rand.Text()[:8], Algorithm: string(localAlgorithm), Use: "sig"}
	if err := c.writePublicKey(key); err != nil {
		return key, err
	}
	return key, writeJSON(c.privateKeyFile(), key)
}

func (c checkout) writePublicKey(key jose.JSONWebKey) error {
	return writeJSON(c.publicKeysFile(), jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})
}

// sampleTiers are those of the API keys that seed makes.
var sampleTiers = []string{"free", "paid", "enterprise"}

// seedAPIKeys makes API keys, one a tier, and returns them: they are told once and
// kept nowhere. It returns nil if there are some already and renew is false; records
// without their secret are none.
func (c checkout) seedAPIKeys(renew bool) (map[string]string, error) {
	if exists(c.apiKeysFile()) && exists(c.apiKeySecretFile()) && !renew {
		return nil, nil
	}
	secret := []byte(rand.Text())
	keys, records := map[string]string{}, []caller.Record{}
	for _, tier := range sampleTiers {
		key := "weir-" + tier + "-" + rand.Text()
		keys[tier] = key
		records = append(records, caller.Record{ID: "sample-" + tier, Hash: caller.HashAPIKey(secret, key), Tier: tier, Owner: "this checkout"})
	}
	if err := writeFile(c.apiKeySecretFile(), secret); err != nil {
		return nil, err
	}
	return keys, writeJSON(c.apiKeysFile(), records)
}

// subjectKey returns the key of the hashes that stand for callers, and makes it if there is none.
func (c checkout) subjectKey() ([]byte, error) {
	key, err := os.ReadFile(c.subjectKeyFile())
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = []byte(rand.Text())
	return key, writeFile(c.subjectKeyFile(), key)
}

// exists reports whether a file is there, or whatever else reading it will tell.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func writeJSON(path string, value any) error {
	document, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(document, '\n'))
}

// writeFile writes a file that only its owner may read, in one step: whoever comes at
// the same time sees the old one or the new one.
func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	part := path + "." + hex.EncodeToString([]byte(rand.Text()[:4]))
	if err := os.WriteFile(part, content, 0o600); err != nil {
		return err
	}
	return os.Rename(part, path)
}
