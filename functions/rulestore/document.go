package rulestore

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
)

// These are the partition keys of the document in force, of the list of versions, and of each
// version.
const (
	currentKey    = contract.RulesKey
	historyKey    = "rules#history"
	versionPrefix = "rules#" // followed by the number of the version
)

// These are the attributes of the items.
const (
	versionAttribute   = "version"
	documentAttribute  = "document"
	publishedAttribute = "published"
	noteAttribute      = "note"
	bytesAttribute     = "bytes"
	versionsAttribute  = "versions"
)

// ErrNoRules means that the table has no rules document.
var ErrNoRules = errors.New("records table: no rules; publish them with `weir rules publish FILE`")

// Source reads the document in force for functions. It is a live.Source and safe for concurrent use.
type Source struct {
	records *records.Table
	key     string
}

var _ live.Source = Source{}

// NewSource returns the rules in a records table that operators publish (Versions).
func NewSource(t *records.Table) Source { return Source{t, currentKey} }

// NewDeployedSource returns the rules in a records table that the deployment of a namespace publishes
// (Publisher).
func NewDeployedSource(t *records.Table, namespace string) Source {
	return Source{t, contract.DeployedRulesKey(namespace)}
}

// Document implements live.Source. The error wraps ErrNoRules if there is no document.
func (s Source) Document(ctx context.Context) (live.Document, error) {
	item, err := s.records.Get(ctx, s.key)
	switch {
	case err != nil:
		return live.Document{}, err
	case item == nil:
		return live.Document{}, ErrNoRules
	}
	v, document, err := parseDocument(item)
	return live.Document{Content: document, Version: v.Version}, err
}

// Version describes a version of the rules.
type Version struct {
	Version   int64     `json:"version"`
	Published time.Time `json:"published"` // precise to the second
	Note      string    `json:"note,omitempty"`
	Bytes     int       `json:"bytes"` // size of the document
}

func (v Version) attributes() records.Item {
	item := records.Item{
		versionAttribute: &types.AttributeValueMemberN{Value: strconv.FormatInt(v.Version, 10)},
		bytesAttribute:   &types.AttributeValueMemberN{Value: strconv.Itoa(v.Bytes)},
	}
	item.SetText(publishedAttribute, v.Published.UTC().Format(time.RFC3339))
	item.SetText(noteAttribute, v.Note)
	return item
}

func (v Version) item(key string, compressed []byte) records.Item {
	item := records.NewItem(key)
	maps.Copy(item, v.attributes())
	item.SetBinary(documentAttribute, compressed)
	return item
}

// parseVersion parses the attributes of a Version. It validates only the number, because no decision
// depends on the other attributes.
func parseVersion(item records.Item) (v Version, err error) {
	n, _ := item[versionAttribute].(*types.AttributeValueMemberN)
	if n != nil {
		v.Version, _ = strconv.ParseInt(n.Value, 10, 64)
	}
	if v.Version < 1 {
		return v, fmt.Errorf("records table: item %s: %s: want a number of at least 1", item.Text(contract.KeyAttribute), versionAttribute)
	}
	if n, ok := item[bytesAttribute].(*types.AttributeValueMemberN); ok {
		v.Bytes, _ = strconv.Atoi(n.Value)
	}
	v.Published, _ = time.Parse(time.RFC3339, item.Text(publishedAttribute))
	v.Note = item.Text(noteAttribute)
	return v, nil
}

func parseDocument(item records.Item) (v Version, document []byte, err error) {
	v, err = parseVersion(item)
	if err != nil {
		return v, nil, err
	}
	compressed := item.Binary(documentAttribute)
	if compressed == nil {
		return v, nil, fmt.Errorf("records table: item %s: attribute %s is missing; publish the rules again", item.Text(contract.KeyAttribute),
			documentAttribute)
	}
	document, err = expand(compressed)
	if err != nil {
		return v, nil, fmt.Errorf("records table: item %s: %s: %w", item.Text(contract.KeyAttribute), documentAttribute, err)
	}
	return v, document, nil
}

// maxItem is the maximum size of a compressed document. An item has at most 400 KiB, including its
// other attributes.
const maxItem = 390 << 10

// compress returns a document in the form that an item contains.
func compress(document []byte) ([]byte, error) {
	if len(document) > rules.MaxBytes {
		return nil, fmt.Errorf("document: got %d bytes, want at most %d", len(document), rules.MaxBytes)
	}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // NewWriterLevel fails only for an invalid level
	_, _ = w.Write(document)                              // a Buffer never returns an error
	_ = w.Close()
	if b.Len() > maxItem {
		return nil, fmt.Errorf("document: got %d bytes after compression, want at most %d (the size of a DynamoDB item); shorten its notes or "+
			"overrides", b.Len(), maxItem)
	}
	return b.Bytes(), nil
}

// expand is the inverse of compress. If the content expands to more than the size of the largest
// document, it returns an error.
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
		return nil, fmt.Errorf("expands to more than %d bytes", rules.MaxBytes)
	}
	return document, nil
}
