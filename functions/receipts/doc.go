// Package receipts encrypts the receipts of requests behind a REST API's authorizer. Such a receipt is a
// sealed limiter.Voucher. A limiter.Receipt never leaves its process.
//
// The authorizer charges a request, and another function knows its cost. A receipt carries what a
// settlement needs from one to the other, through the authorizer's context, the access log or a back end.
// [Ring.Seal] encrypts and authenticates a receipt, and [Ring.Open] returns only what Seal sealed. The
// limiter rejects a receipt that is used twice or too late (limiter.Limiter.SettleVoucher).
//
// # Format
//
// A receipt is base64url without padding of:
//
//	version     1 byte, 1
//	key id      4 bytes, HMAC-SHA256 of the key
//	salt        12 bytes, random
//	nonce       12 bytes, random
//	ciphertext  AES-256-GCM, with a tag of 16 bytes
//
// The version, the key id and the salt are additional data of the cipher. Each receipt has a cipher key of
// its own, HMAC-SHA256 of the key, the salt, the namespace and the region. Random nonces therefore never
// collide under one cipher key, and a key can seal any number of receipts.
//
// # Log lines
//
// The function that gets log lines from CloudWatch Logs acts on a line of a function only if the line has a MAC,
// because other code can write into the log of a function. [Ring.Sign] returns the MAC, HMAC-SHA256 with a key that
// is derived from the key of receipts and the scope, and [Ring.Verify] checks it.
//
// # Keys
//
// The item contract.ReceiptKeysKey of the records table has a current key and, after a rotation, the
// previous key. The first function that seals a receipt or signs a line creates the item ([Load]). [Rotate] replaces
// the current key.
//
// Functions use keys for at most [Stale] after they have read them. For this time after a rotation,
// authorizers seal with the previous key. So every function that has keys knows the key of each new
// receipt. [Rotate] fails while a receipt can exist that only the previous key opens: [Stale] and
// [MaxLife] after the last rotation.
package receipts
