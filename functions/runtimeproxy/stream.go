package runtimeproxy

import (
	"bufio"
	"bytes"
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
		read := bufio.NewReaderSize(a.r.Body, maxPrelude)
		body = read
		if metadata, ok := readPrelude(read); ok {
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

// readPrelude reads up to the end of the metadata. If there is no delimiter in the size of the buffer, ok is false, and it has
// read nothing.
func readPrelude(r *bufio.Reader) (metadata []byte, ok bool) {
	for {
		_, err := r.Peek(r.Buffered() + 1)
		begun, _ := r.Peek(r.Buffered())
		metadata, _, ok = bytes.Cut(begun, delimiter)
		if ok {
			metadata = bytes.Clone(metadata)
			_, _ = r.Discard(len(metadata) + len(delimiter))
			return metadata, true
		}
		if err != nil {
			return nil, false
		}
	}
}
