package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// Tokens plays questions to a language model against a limit that counts tokens
// (limiter.CountCost). The number of tokens is known only after the answer.
//
// An admitted question reserves tokens. Its answer takes AnswerTime, and then the limit settles: it
// refunds the unused tokens, or charges the tokens above the reserve. Every fifth answer is long.
// Tokens above the limit become a debt, which is at most as large as the limit. While the caller is
// in debt, the limit refuses questions.
type Tokens struct {
	Limit      int64 // tokens per tokensWindow
	Reserve    int64
	Short      int64 // tokens of a short answer
	Long       int64 // tokens of every fifth answer
	AnswerTime int64 // in milliseconds
	Offered    int64 // questions per second
}

// TokensResult is the outcome of the questions.
type TokensResult struct {
	Limit    int64 `json:"limit"`
	Admitted int   `json:"admitted"`
	Refused  int   `json:"refused"`
	// Reserved is the sum of the reserves of all admitted questions. Refunded and Charged are the
	// sums of the corrections after the answers. Excess is the part of Charged that exceeded the
	// largest possible debt.
	Reserved int64 `json:"reserved"`
	Refunded int64 `json:"refunded"`
	Charged  int64 `json:"charged"`
	Excess   int64 `json:"excess"`
	MostDebt int64 `json:"mostDebt"`
	// RefusedAt has the times of the refused questions.
	RefusedAt []Milliseconds `json:"refusedAtMs"`
	Steps     []TokensStep   `json:"steps"`
}

// TokensStep is the state of the limit at a time.
type TokensStep struct {
	At       Milliseconds `json:"atMs"`
	Used     int64        `json:"used"`     // usage of the limit, including reserves
	Reserved int64        `json:"reserved"` // reserves of questions that have no answer yet
	Debt     int64        `json:"debt"`     // tokens beyond the limit
}

const (
	tokensWindow = 10 * time.Second
	tokensSpan   = 20 * time.Second // duration of the arrivals
	tokensStep   = 100 * time.Millisecond
	longEach     = 5 // every longEach-th answer is long
)

// Name implements Scenario.
func (s *Tokens) Name() string { return "tokens" }

// Parameters implements Scenario.
func (s *Tokens) Parameters() []Parameter {
	return []Parameter{
		{"limit", "Limit, tokens in ten seconds", &s.Limit, 1, 10_000},
		{"reserve", "Reserve of a question, tokens", &s.Reserve, 1, 10_000},
		{"short", "Short answer, tokens", &s.Short, 0, 10_000},
		{"long", "Each fifth answer, tokens", &s.Long, 0, 10_000},
		{"answerMs", "Time to an answer, ms", &s.AnswerTime, 0, 10_000},
		{"offered", "Questions a second", &s.Offered, 1, 20},
	}
}

// answer is the coming answer to an admitted question.
type answer struct {
	at      time.Duration
	tokens  int64
	receipt *limiter.Receipt
}

// Play implements Scenario. Its result is a TokensResult.
func (s *Tokens) Play() (any, error) {
	if s.Reserve > s.Limit {
		return nil, fmt.Errorf("reserve: got %d, want at most the limit %d", s.Reserve, s.Limit)
	}
	d, err := newDesk(limiter.Limit{Name: "demo", Rate: algo.Rate{Requests: s.Limit, Window: tokensWindow},
		Count: limiter.Count{Of: limiter.CountCost}})
	if err != nil {
		return nil, err
	}
	d.charges[0].Cost = s.Reserve
	p := tokensPlay{Tokens: s, desk: d, result: TokensResult{Limit: s.Limit, RefusedAt: []Milliseconds{}}}
	for i := range s.Offered * int64(tokensSpan/time.Second) {
		at := time.Duration(i) * time.Second / time.Duration(s.Offered)
		if err := p.stepTo(at); err != nil {
			return nil, err
		}
		if err := p.ask(at); err != nil {
			return nil, err
		}
	}
	return p.result, p.stepTo(tokensSpan + tokensWindow + time.Duration(s.AnswerTime)*time.Millisecond)
}

type tokensPlay struct {
	*Tokens
	*desk

	result  TokensResult
	waiting []answer // admitted questions without an answer, sorted by the time of their answer
}

func (p *tokensPlay) ask(at time.Duration) error {
	decision, receipt, err := p.limiter.TakeRefundable(context.Background(), p.start.Add(at), p.charges)
	if err != nil {
		return err
	}
	if !decision.Allowed {
		p.result.Refused++
		p.result.RefusedAt = append(p.result.RefusedAt, milliseconds(at))
		return nil
	}
	p.result.Admitted++
	p.result.Reserved += p.Reserve
	tokens := p.Short
	if p.result.Admitted%longEach == 0 {
		tokens = p.Long
	}
	p.waiting = append(p.waiting, answer{at + time.Duration(p.AnswerTime)*time.Millisecond, tokens, receipt})
	return nil
}

// stepTo settles the answers that arrive up to the time end, and records the steps before them.
func (p *tokensPlay) stepTo(end time.Duration) error {
	for {
		step := time.Duration(len(p.result.Steps)) * tokensStep
		switch {
		case len(p.waiting) > 0 && p.waiting[0].at <= min(step, end):
			if err := p.settle(); err != nil {
				return err
			}
		case step > end:
			return nil
		default:
			if err := p.record(step); err != nil {
				return err
			}
		}
	}
}

// settle settles the answer that arrives next.
func (p *tokensPlay) settle() error {
	a := p.waiting[0]
	p.waiting = p.waiting[1:]
	settled := a.receipt.Settle(context.Background(), p.start.Add(a.at), func(limiter.Charge) int64 { return a.tokens })
	p.result.Refunded += max(0, p.Reserve-a.tokens)
	p.result.Charged += max(0, a.tokens-p.Reserve)
	for _, excess := range settled.Excess {
		p.result.Excess += excess.Cost
	}
	usage, err := p.usage(a.at)
	p.result.MostDebt = max(p.result.MostDebt, usage.Debt)
	return err
}

func (p *tokensPlay) usage(at time.Duration) (limiter.Usage, error) {
	usages, err := p.limiter.Inspect(context.Background(), p.start.Add(at), p.charges)
	if err != nil {
		return limiter.Usage{}, err
	}
	return usages[0], nil
}

func (p *tokensPlay) record(at time.Duration) error {
	u, err := p.usage(at)
	if err != nil {
		return err
	}
	p.result.Steps = append(p.result.Steps, TokensStep{milliseconds(at), u.Capacity - u.Remaining + u.Debt, int64(len(p.waiting)) * p.Reserve,
		u.Debt})
	return nil
}
