package viewer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weir-limits/weir/functions/edge"
)

// List is a KeyValueStore in memory. It implements edge.Store, for writers. Functions see a change only after a lag, as
// at CloudFront.
type List struct {
	clock func() time.Time
	lag   time.Duration

	mu      sync.Mutex
	values  map[string]string // for writers
	seen    map[string]string // for functions
	changes []change          // that functions do not see yet, the first one first
	tag     int
	size    int
}

type change struct {
	at     time.Time // when functions see it
	values map[string]string
}

// NewList returns an empty List.
func NewList(clock func() time.Time, lag time.Duration) *List {
	return &List{clock: clock, lag: lag, values: map[string]string{}, seen: map[string]string{}}
}

// State implements edge.Store.
func (l *List) State(context.Context) (tag string, size int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strconv.Itoa(l.tag), l.size, nil
}

// Get implements edge.Store.
func (l *List) Get(_ context.Context, key string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.values[key], nil
}

// Page implements edge.Store. A token is the first key of a page.
func (l *List) Page(_ context.Context, token string) (values map[string]string, next string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := slices.Sorted(maps.Keys(l.values))
	at, _ := slices.BinarySearch(keys, token)
	values = map[string]string{}
	for _, key := range keys[at:] {
		if len(values) == edge.MaxPage {
			return values, key, nil
		}
		values[key] = l.values[key]
	}
	return values, "", nil
}

// Update implements edge.Store.
func (l *List) Update(_ context.Context, tag string, values map[string]string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if tag != strconv.Itoa(l.tag) {
		return edge.ErrConflict
	}
	for key, value := range values {
		if old := l.values[key]; old != "" {
			l.size -= len(key) + len(old)
		}
		if value != "" {
			l.size += len(key) + len(value)
		}
	}
	set(l.values, values)
	l.tag++
	l.changes = append(l.changes, change{l.clock().Add(l.lag), maps.Clone(values)})
	return nil
}

// Functions returns the list as functions see it.
func (l *List) Functions() Store { return lagging{l} }

type lagging struct{ *List }

var errNoValue = errors.New("no value")

// Get implements Store.
func (l lagging) Get(key string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for now := l.clock(); len(l.changes) > 0 && !l.changes[0].at.After(now); l.changes = l.changes[1:] {
		set(l.seen, l.changes[0].values)
	}
	if value := l.seen[key]; value != "" {
		return value, nil
	}
	return "", errNoValue
}

// set changes values in a list. An empty value deletes its key.
func set(list, values map[string]string) {
	for key, value := range values {
		if value == "" {
			delete(list, key)
		} else {
			list[key] = value
		}
	}
}
