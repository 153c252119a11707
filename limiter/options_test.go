package limiter_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

func TestNew_options(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		field string // the field in the error; empty: no error
		limiter.Options
	}{
		{"", limiter.Options{}},
		{"", limiter.Options{Timeout: 999 * ms, CacheTTL: -1, Subjects: 1}},
		{"Options.Timeout", limiter.Options{Timeout: time.Second}},
		{"Options.Timeout", limiter.Options{Timeout: -1}},
		{"Options.Subjects", limiter.Options{Subjects: -1}},
	} {
		l, err := limiter.New(newRemote(), c.Options)
		if c.field == "" {
			if l == nil || err != nil {
				t.Errorf("%+v: got error %v, want none", c.Options, err)
			}
			continue
		}
		field, ok := errors.AsType[*algo.FieldError](err)
		if l != nil || !ok || field.Field != c.field || !strings.HasPrefix(err.Error(), "limiter: "+c.field+": got ") ||
			!strings.Contains(err.Error(), ", want ") {
			t.Errorf("%+v: got %v, want an error of %s", c.Options, err, c.field)
		}
	}
	if l, err := limiter.New(nil, limiter.Options{}); l != nil || err == nil {
		t.Errorf("without a store: got error %v, want an error and no Limiter", err)
	}
}
