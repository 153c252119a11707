package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/rulestore"
)

// Rules returns the rules document that was published to the records table. It returns nil if the functions
// have other rules: those of AppConfig, or the document in their bundle.
func (s *Stack) Rules(ctx context.Context) ([]byte, error) {
	if s.setting(contract.VariableRulesFrom) != contract.RulesTable {
		return nil, nil
	}
	_, document, err := rulestore.New(s.tables, s.setting(contract.VariableRecordsTable)).Get(ctx, 0)
	if errors.Is(err, rulestore.ErrNoRules) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("rules of stack %s: %w; give them with --rules", s.Name, err)
	}
	return document, nil
}
