// Package meter reads the cost of a request from the bodies of the request and of its answer, such as the tokens in an
// answer of a language model. It reads forward, in pieces of any length, and changes nothing. Its memory does not grow with
// a body: it keeps the kinds of the open containers, one token, and one number for each path.
package meter
