package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/rulestore"
)

// Rules returns the rules document that was published to the records table, by an operator or by the
// deployment. It returns nil if the functions have other rules: those of AppConfig, or the document in their
// bundle.
func (s *Stack) Rules(ctx context.Context) ([]byte, error) {
	table := records.NewTable(s.tables, s.setting(contract.VariableRecordsTable))
	var source rulestore.Source
	switch s.setting(contract.VariableRulesFrom) {
	case contract.RulesTable:
		source = rulestore.NewSource(table)
	case contract.RulesDeployment:
		source = rulestore.NewDeployedSource(table, s.setting(contract.VariableNamespace))
	default:
		return nil, nil
	}
	d, err := source.Document(ctx)
	if errors.Is(err, rulestore.ErrNoRules) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("rules of stack %s: %w; give them with --rules", s.Name, err)
	}
	return d.Content, nil
}
