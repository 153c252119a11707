package receipts

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/weir-limits/weir/functions/contract"
)

var (
	// ErrForged means that no key in use has sealed the receipt.
	ErrForged = errors.New("receipt: not valid")
	// ErrTooLong means that the sealed receipt would be longer than contract.MaxReceipt.
	ErrTooLong = errors.New("receipt: too long for the authorizer's context")
)

// These are the lengths of the parts of a receipt, in bytes.
const (
	version     = 1
	keyIDBytes  = 4
	saltBytes   = 12
	headerBytes = 1 + keyIDBytes + saltBytes
	nonceBytes  = 12
	tagBytes    = 16
)

// encoding is strict, so that trailing bits cannot differ.
var encoding = base64.RawURLEncoding.Strict()

func (k Keys) seal(now time.Time, scope Scope, receipt []byte) (string, error) {
	if encoding.EncodedLen(headerBytes+nonceBytes+len(receipt)+tagBytes) > contract.MaxReceipt {
		return "", ErrTooLong
	}
	key := k.sealing(now)
	sealed := make([]byte, headerBytes, headerBytes+nonceBytes+len(receipt)+tagBytes)
	sealed[0] = version
	copy(sealed[1:], keyID(key))
	_, _ = rand.Read(sealed[1+keyIDBytes:]) // rand.Read never fails
	aead, err := newCipher(key, scope, sealed)
	if err != nil {
		return "", err
	}
	return encoding.EncodeToString(aead.Seal(sealed, nil, receipt, sealed)), nil
}

// sealing returns the key for new receipts and lines at the time now.
func (k Keys) sealing(now time.Time) []byte {
	if k.pair.Previous != nil && now.Before(k.pair.Rotated.Add(Stale)) {
		return k.pair.Previous
	}
	return k.pair.Current
}

// open decrypts a receipt. The error is ErrForged if no key of k sealed it.
func (k Keys) open(scope Scope, text string) ([]byte, error) {
	if len(text) > contract.MaxReceipt {
		return nil, ErrForged
	}
	sealed, err := encoding.DecodeString(text)
	if err != nil || len(sealed) != encoding.DecodedLen(len(text)) || len(sealed) < headerBytes+nonceBytes+tagBytes || sealed[0] != version { // the decoder ignores line breaks, so the lengths are compared too
		return nil, ErrForged
	}
	header := sealed[:headerBytes]
	for _, key := range [][]byte{k.pair.Current, k.pair.Previous} {
		if key == nil || !hmac.Equal(header[1:1+keyIDBytes], keyID(key)) {
			continue
		}
		aead, err := newCipher(key, scope, header)
		if err != nil {
			return nil, err
		}
		if receipt, err := aead.Open(nil, nil, sealed[headerBytes:], header); err == nil {
			return receipt, nil
		}
	}
	return nil, ErrForged
}

func newCipher(key []byte, scope Scope, header []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(derive(key, "cipher", append(header[1+keyIDBytes:headerBytes:headerBytes], scope.text()...)))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func keyID(key []byte) []byte { return derive(key, "id", nil)[:keyIDBytes] }

func derive(key []byte, purpose string, context []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("weir receipt " + purpose + "\x00"))
	mac.Write(context)
	return mac.Sum(nil)
}
