package rulestore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/rules"
)

// ReadInterventions returns the text of the interventions in a records table, for functions. It is empty if there are none.
func ReadInterventions(ctx context.Context, t *records.Table) ([]byte, error) {
	item, err := t.Get(ctx, contract.InterventionsKey)
	if err != nil || item == nil {
		return nil, err
	}
	_, text, err := parseDocument(item)
	return text, err
}

// Interventions returns the interventions in the table. No publication of rules changes them.
func (s *Versions) Interventions(ctx context.Context) (*rules.Interventions, error) {
	item, err := records.GetConsistent(ctx, s.api, s.table, contract.InterventionsKey)
	if err != nil || item == nil {
		return &rules.Interventions{}, err
	}
	_, text, err := parseDocument(item)
	if err != nil {
		return nil, err
	}
	return rules.ParseInterventions(text)
}

// Intervene replaces the interventions of version after by v; 0 means that there were none. If others are in the table,
// the error wraps ErrConflict.
func (s *Versions) Intervene(ctx context.Context, v *rules.Interventions, after int64) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	compressed, err := compress(text)
	if err != nil {
		return fmt.Errorf("interventions: %w", err)
	}
	of := Version{Version: v.Version, Published: time.Unix(v.Version, 0), Bytes: len(text)}
	return s.transact(ctx, []types.TransactWriteItem{s.put(ifVersion(after), of.item(contract.InterventionsKey, compressed))})
}
