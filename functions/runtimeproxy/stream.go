package runtimeproxy

import (
	"bytes"
	"errors"
	"io"

	"github.com/weir-limits/weir/functions/lambdahttp"
)

const streaming = "streaming"

// delimiter ends the metadata.
var delimiter = []byte(lambdahttp.StreamDelimiter)

// maxPrelude bounds the metadata that the proxy reads before it passes an answer on.
const maxPrelude = 64 << 10

// stream sends a streamed answer to Lambda without waiting for its end.
func (a *answer) stream(admitted *lambdahttp.Admitted) error {
	body, kind := io.Reader(a.r.Body), a.r.Header.Get("Content-Type")
	var prelude []byte
	if kind == lambdahttp.StreamType {
		metadata, rest, ok := readPrelude(a.r.Body)
		body = io.MultiReader(bytes.NewReader(rest), a.r.Body)
		if ok {
			prelude = append(admitted.Prelude(metadata), delimiter...)
		}
	}
	body = io.MultiReader(bytes.NewReader(prelude), admitted.Streamed(body, kind))
	err := a.relay(func() io.Reader { return body }, -1)
	if err == nil && a.r.Trailer.Get(headerErrorType) != "" {
		return errFunction
	}
	return err
}

// readPrelude reads up to the end of the metadata. rest has the bytes that were also read, after the
// metadata. If there is no delimiter, ok is false, and rest has all bytes.
func readPrelude(r io.Reader) (metadata, rest []byte, ok bool) {
	read := make([]byte, 0, 4096)
	for len(read) < maxPrelude {
		if len(read) == cap(read) {
			read = append(read, 0)[:len(read)]
		}
		n, err := r.Read(read[len(read):cap(read)])
		from := max(0, len(read)-len(delimiter))
		read = read[:len(read)+n]
		if at := bytes.Index(read[from:], delimiter); at >= 0 {
			return read[:from+at], read[from+at+len(delimiter):], true
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return nil, read, false
			}
			break
		}
	}
	return nil, read, false
}
