package records

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
)

// The partition keys of the rules: of the document in force, of the list of versions, and of
// each version that is kept.
const (
	rulesKey        = "rules"
	historyKey      = "rules#history"
	rulesKeyVersion = "rules#" // and its number
)

// The attributes of their items.
const (
	versionAttribute  = "version"
	documentAttribute = "document"
	putAttribute      = "put"
	noteAttribute     = "note"
	bytesAttribute    = "bytes"
	versionsAttribute = "versions"
)

// maxItem is what a document may have when it is compressed. An item has 400 KiB at most, the
// other attributes included.
const maxItem = 390 << 10

// ErrNoRules is a table without a document of rules.
var ErrNoRules = errors.New("records table: there are no rules yet: weir rules put puts them there")

var _ live.Source = (*Table)(nil)

// Document implements live.Source: it returns the document in force, by one read. The error
// wraps ErrNoRules if there is none.
func (t *Table) Document(ctx context.Context) (live.Document, error) {
	it, err := t.get(ctx, rulesKey)
	switch {
	case err != nil:
		return live.Document{}, err
	case it == nil:
		return live.Document{}, ErrNoRules
	}
	v, document, err := it.rules()
	return live.Document{Content: document, Version: v.Version}, err
}

// Version is a version of the rules, as the table knows it.
type Version struct {
	Version int64     `json:"version"`
	Put     time.Time `json:"put"` // when, to the second
	Note    string    `json:"note,omitempty"`
	Bytes   int       `json:"bytes"` // of the document
}

// attributes returns v as attributes of an item.
func (v Version) attributes() item {
	it := item{
		versionAttribute: &types.AttributeValueMemberN{Value: strconv.FormatInt(v.Version, 10)},
		bytesAttribute:   &types.AttributeValueMemberN{Value: strconv.Itoa(v.Bytes)},
	}
	it.set(putAttribute, v.Put.UTC().Format(time.RFC3339))
	it.set(noteAttribute, v.Note)
	return it
}

// version reads the attributes of a Version.
func (it item) version() (v Version, err error) {
	n, _ := it[versionAttribute].(*types.AttributeValueMemberN)
	if n != nil {
		v.Version, _ = strconv.ParseInt(n.Value, 10, 64)
	}
	if v.Version < 1 {
		return v, fmt.Errorf("records table: item %s: %s is not a number from 1 on", it.text(contract.KeyAttribute), versionAttribute)
	}
	if n, ok := it[bytesAttribute].(*types.AttributeValueMemberN); ok {
		v.Bytes, _ = strconv.Atoi(n.Value) // for people, as the rest
	}
	v.Put, _ = time.Parse(time.RFC3339, it.text(putAttribute))
	v.Note = it.text(noteAttribute)
	return v, nil
}

// rules reads a version and its document.
func (it item) rules() (v Version, document []byte, err error) {
	if v, err = it.version(); err != nil {
		return v, nil, err
	}
	b, ok := it[documentAttribute].(*types.AttributeValueMemberB)
	if !ok {
		return v, nil, fmt.Errorf("records table: item %s: %s is missing", it.text(contract.KeyAttribute), documentAttribute)
	}
	if document, err = expand(b.Value); err != nil {
		return v, nil, fmt.Errorf("records table: item %s: %s: %w", it.text(contract.KeyAttribute), documentAttribute, err)
	}
	return v, document, nil
}

// compress makes of a document what an item can hold.
func compress(document []byte) ([]byte, error) {
	if len(document) > rules.MaxBytes {
		return nil, fmt.Errorf("the document has %d bytes, at most %d are allowed", len(document), rules.MaxBytes)
	}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // it is a level that there is
	_, _ = w.Write(document)                              // to memory
	_ = w.Close()
	if b.Len() > maxItem {
		return nil, fmt.Errorf("the document has %d bytes when it is compressed, and an item of DynamoDB has room for %d: shorten it, such as its notes and overrides", b.Len(), maxItem)
	}
	return b.Bytes(), nil
}

// expand is the inverse of compress. It reads no more than a document may have, whatever was
// compressed.
func expand(compressed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	document, err := io.ReadAll(io.LimitReader(r, rules.MaxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(document) > rules.MaxBytes:
		return nil, fmt.Errorf("has more than %d bytes when it is expanded", rules.MaxBytes)
	}
	return document, nil
}
