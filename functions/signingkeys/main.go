// Command signingkeys copies the issuer's signing keys into the records table.
package main

import "github.com/weir-limits/weir/functions/boot"

func main() { boot.StartSigningKeys() }
