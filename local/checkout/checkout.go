package checkout

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// Checkout is a clone of this repository. Get one from [Find].
type Checkout struct{ Root string }

var errOutside = errors.New("working directory: not inside a checkout of Weir (no functions/rules.json here or in a parent directory); " +
	"change to a checkout")

// Find searches the working directory and the directories above it for the repository.
func Find() (Checkout, error) { return search(filepath.Join("functions", "rules.json")) }

// FindKeys is Find for commands that only need the files in .weir. Outside the repository, it searches for the
// folder of `weir serve --upstream`. If somebody else can write to its .weir, the error says so.
func FindKeys() (Checkout, error) {
	c, err := Find()
	if err == nil {
		user, _, _ := owner(c.Root)
		if keys, _, err := owner(c.Path(".weir")); err == nil && keys != user && keys != os.Getuid() {
			return c, fmt.Errorf("%s: belongs to another user; change to a folder of your own", c.Path(".weir"))
		}
	}
	if !errors.Is(err, errOutside) {
		return c, err
	}
	c, err = search(".weir")
	if errors.Is(err, errOutside) {
		return c, fmt.Errorf("%w, or to the folder in which you run weir serve --upstream", err)
	}
	if err == nil && !own(c.Path(".weir"), os.Getuid()) {
		err = fmt.Errorf("%s: another user can write to this folder; change to a folder of your own", c.Path(".weir"))
	}
	return c, err
}

// Here is FindKeys, or else the working directory.
func Here() (Checkout, error) {
	c, err := FindKeys()
	if errors.Is(err, errOutside) {
		c.Root, err = os.Getwd()
	}
	return c, err
}

// search returns the working directory or the nearest directory above it that has a file. It ends at the top of a checkout
// of any repository, and below a directory to which others can write, because they could choose the keys and the rules.
func search(name string) (Checkout, error) {
	dir, err := os.Getwd()
	if err != nil {
		return Checkout{}, err
	}
	user, _, _ := owner(dir) // in a container, often not the user of this process
	for !Exists(filepath.Join(dir, name)) {
		parent := filepath.Dir(dir)
		if parent == dir || Exists(filepath.Join(dir, ".git")) || !own(parent, os.Getuid(), user) {
			return Checkout{}, errOutside
		}
		dir = parent
	}
	return Checkout{dir}, nil
}

// own reports whether a file belongs to one of the users, and no other user can write to it.
func own(path string, users ...int) bool {
	user, writable, err := owner(path)
	return err == nil && !writable && slices.Contains(users, user)
}

// Path returns the path of a file of the checkout.
func (c Checkout) Path(parts ...string) string {
	return filepath.Join(append([]string{c.Root}, parts...)...)
}

// HostArch returns Lambda's name of this machine's architecture. The folders in dist have these
// names.
func HostArch() string {
	if runtime.GOARCH == "amd64" {
		return "x86_64"
	}
	return runtime.GOARCH
}

// PublicKeysFile is the JWKS document with the key that verifies local tokens.
func (c Checkout) PublicKeysFile() string { return c.Path(".weir", "jwks.json") }

// APIKeysFile has the records of the sample API keys.
func (c Checkout) APIKeysFile() string { return c.Path(".weir", "apikeys.json") }

// APIKeySecretFile has the secret for the hashes in APIKeysFile.
func (c Checkout) APIKeySecretFile() string { return c.Path(".weir", "apikey-secret") }

// SubjectKeyFile has the key for the hashes that replace callers in logs and metrics.
func (c Checkout) SubjectKeyFile() string { return c.Path(".weir", "subject-key") }

// InterventionsFile has the blocks and raised limits of weir block and weir raise.
func (c Checkout) InterventionsFile() string { return c.Path(".weir", "interventions.json") }

// Interventions returns those in InterventionsFile.
func (c Checkout) Interventions(context.Context) (*rules.Interventions, error) {
	text, err := os.ReadFile(c.InterventionsFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return rules.ParseInterventions(text)
}

// Intervene writes InterventionsFile. If its version is no longer after, it writes nothing, and the error wraps
// rulestore.ErrConflict.
func (c Checkout) Intervene(ctx context.Context, v *rules.Interventions, after int64) error {
	if err := os.MkdirAll(c.Path(".weir"), 0o700); err != nil {
		return err
	}
	locked, err := lock(c.Path(".weir"))
	if err != nil {
		return err
	}
	defer func() { _ = locked.Close() }()
	was, err := c.Interventions(ctx)
	if err == nil && was.Version != after {
		err = rulestore.ErrConflict
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.InterventionsFile(), err)
	}
	return writeJSON(c.InterventionsFile(), v)
}

// MetricsFile gets the metrics of local functions. On AWS, CloudWatch gets them.
func (c Checkout) MetricsFile() string { return c.Path(".weir", "metrics.log") }

func (c Checkout) privateKeyFile() string { return c.Path(".weir", "jwt-key.json") }
func (c Checkout) sampleKeysFile() string { return c.Path(".weir", "sample-keys.json") }

// SigningKey returns the key that signs local tokens. It creates the key and the document of its
// public half if they are missing.
func (c Checkout) SigningKey() (key jose.JSONWebKey, err error) {
	if err := readJSON(c.privateKeyFile(), &key); err == nil {
		if Exists(c.PublicKeysFile()) {
			return key, nil
		}
		return key, c.writePublicKey(key)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return key, err
	}
	key = jose.JSONWebKey{Key: private, KeyID: "local-" + rand.Text()[:8], Algorithm: string(Algorithm), Use: "sig"}
	if err := c.writePublicKey(key); err != nil {
		return key, err
	}
	return key, writeJSON(c.privateKeyFile(), key)
}

func (c Checkout) writePublicKey(key jose.JSONWebKey) error {
	return writeJSON(c.PublicKeysFile(), jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})
}

// SampleTiers are the tiers of the sample API keys.
var SampleTiers = []string{"free", "paid", "enterprise"}

// SampleKeys returns the sample API keys by tier. If a file is missing, SampleKeys
// creates new keys. No deployment accepts sample keys, so .weir contains them in plain text.
func (c Checkout) SampleKeys() (keys map[string]string, err error) {
	if Exists(c.APIKeysFile()) && Exists(c.APIKeySecretFile()) && Exists(c.sampleKeysFile()) {
		return keys, readJSON(c.sampleKeysFile(), &keys)
	}
	secret := []byte(rand.Text() + rand.Text())[:records.SecretBytes]
	keys = map[string]string{}
	var list []caller.Record
	for _, tier := range SampleTiers {
		key := "weir_" + tier + "-" + rand.Text()
		keys[tier] = key
		list = append(list, caller.Record{ID: "sample-" + tier, Hash: caller.HashAPIKey(secret, key), Tier: tier, Owner: "this checkout",
			Created: time.Now().UTC().Truncate(time.Second)})
	}
	if err := writeFile(c.APIKeySecretFile(), secret); err != nil {
		return nil, err
	}
	return keys, errors.Join(writeJSON(c.APIKeysFile(), list), writeJSON(c.sampleKeysFile(), keys))
}

// SubjectKey returns the key in SubjectKeyFile. It creates a missing key.
func (c Checkout) SubjectKey() ([]byte, error) {
	key, err := os.ReadFile(c.SubjectKeyFile())
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = []byte(rand.Text())
	return key, writeFile(c.SubjectKeyFile(), key)
}

// Seed creates all the files that a local run needs, and returns the sample API keys.
func (c Checkout) Seed() (keys map[string]string, err error) {
	if _, err := c.SigningKey(); err != nil {
		return nil, err
	}
	if _, err := c.SubjectKey(); err != nil {
		return nil, err
	}
	return c.SampleKeys()
}

// Exists reports whether a file exists. If Exists cannot check this, it returns true. The caller then gets
// the error when it reads the file.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func readJSON(path string, value any) error {
	document, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(document, value); err != nil {
		return fmt.Errorf("%s: %w; remove .weir to create new files", path, err)
	}
	return nil
}

func writeJSON(path string, value any) error {
	document, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(document, '\n'))
}

// writeFile writes a file that only its owner may read. The write is atomic: another process reads
// either the old content or the new content.
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
