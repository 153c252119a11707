package telemetry

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"
)

// Signature are the members of a log line on which another function acts. Other code can write into the same log. So
// that function drops a line without the MAC of Line, an old line, and a repeated one.
type Signature struct {
	Time   time.Time `json:"time"`
	Number string    `json:"number,omitempty"` // differs for each line
	MAC    string    `json:"mac,omitempty"`
}

// Signed is a line with a Signature.
type Signed interface{ signature() *Signature }

func (s *Signature) signature() *Signature { return s }

// Signer returns the MAC of a line.
type Signer func(ctx context.Context, now time.Time, line []byte) (mac string, err error)

// SignWith sets the Signer of lines on which another function acts. Without it, these lines have no number and no MAC.
// Call SignWith before the first line.
func (r *Recorder) SignWith(sign Signer) {
	if r != nil {
		r.signer = sign
	}
}

// sign gives a line its number and its MAC.
func (r *Recorder) sign(ctx context.Context, line Signed) error {
	if r.signer == nil {
		return nil
	}
	s := line.signature()
	s.Number = rand.Text()
	text, _, err := Unsigned(line)
	if err == nil {
		s.MAC, err = r.signer(ctx, s.Time, text)
	}
	return err
}

// Unsigned returns the text of a line that its MAC authenticates, and the signature of the line. The text has the
// members of the line's type in their order, so it does not depend on how a log has formatted the line.
func Unsigned(line Signed) (text []byte, s Signature, err error) {
	signature := line.signature()
	s = *signature
	signature.MAC = ""
	text, err = json.Marshal(line)
	signature.MAC = s.MAC
	return text, s, err
}
