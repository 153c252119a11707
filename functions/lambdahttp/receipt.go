package lambdahttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/weir-limits/weir/functions/receipts"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// receiptTimeout bounds how long an admitted request waits for the keys of receipts.
const receiptTimeout = 300 * time.Millisecond

var errNoReceipts = errors.New("no keys of receipts; set RECORDS_TABLE")

// sealed returns the receipt of an admitted request. It returns "" if the receipt cannot be sealed; the limits then
// keep their reserve.
func (e *Environment) sealed(ctx context.Context, now time.Time, p *httplimit.Pending) string {
	ctx, cancel := context.WithTimeout(ctx, receiptTimeout)
	defer cancel()
	text, err := e.seal(ctx, now, p)
	if err != nil {
		e.Recorder.Receipt(now, telemetry.ReceiptOmitted)
		e.Logger.LogAttrs(ctx, slog.LevelWarn, "receipt omitted; the limits keep their reserve", slog.Any("err", err))
	}
	return text
}

func (e *Environment) seal(ctx context.Context, now time.Time, p *httplimit.Pending) (string, error) {
	if e.Receipts == nil {
		return "", errNoReceipts
	}
	voucher, err := p.Voucher(now)
	if err != nil {
		return "", err
	}
	plain, err := voucher.MarshalBinary()
	if err != nil {
		return "", err
	}
	return e.Receipts.Seal(ctx, now, plain)
}

// open returns the voucher in a receipt. If no authorizer of the deployment sealed the receipt, open
// counts it as forged, and the error wraps receipts.ErrForged. Other errors mean that the records table
// failed.
func (e *Environment) open(ctx context.Context, now time.Time, receipt string) (*limiter.Voucher, error) {
	if e.Receipts == nil {
		return nil, errNoReceipts
	}
	voucher := new(limiter.Voucher)
	plain, err := e.Receipts.Open(ctx, now, receipt)
	if err == nil {
		if err = voucher.UnmarshalBinary(plain); err != nil { // another version of the authorizer sealed it
			err = fmt.Errorf("%w: %w", receipts.ErrForged, err)
		}
	}
	if err == nil {
		return voucher, nil
	}
	if errors.Is(err, receipts.ErrForged) {
		e.Recorder.Receipt(now, telemetry.ReceiptForged)
	}
	return nil, err
}

// serveDecided passes a request to api that an authorizer has admitted. If the context of the authorizer
// has a receipt, serveDecided settles the request after the answer. It removes cost fields from the answer
// even without a receipt.
func (e *Environment) serveDecided(gate *httplimit.Gate, w http.ResponseWriter, r *http.Request, receipt string, api http.Handler) {
	fields := e.Rules.Current().CostFields()
	var voucher *limiter.Voucher
	if receipt != "" {
		voucher = e.received(r.Context(), receipt)
	}
	if voucher == nil && len(fields) == 0 {
		api.ServeHTTP(w, r)
		return
	}
	gate.Resume(voucher, fields).Serve(w, r, api)
}

// received returns the voucher in the receipt of an authorizer. It returns nil if the receipt cannot be
// opened.
func (e *Environment) received(ctx context.Context, receipt string) *limiter.Voucher {
	now := e.Clock()
	ctx, cancel := context.WithTimeout(ctx, receiptTimeout)
	defer cancel()
	voucher, err := e.open(ctx, now, receipt)
	if err != nil {
		e.Logger.LogAttrs(ctx, slog.LevelWarn, "receipt not opened; the limits keep their reserve", slog.Any("err", err))
	}
	return voucher
}
