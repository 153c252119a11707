package main

import (
	"log"
	"net/http"
	"time"

	"github.com/weir-limits/weir/limiter/httplimit"
)

func main() {
	limit := httplimit.PerIP(100, time.Minute, httplimit.WithTrustedProxies("10.0.0.0/8"))
	files := http.FileServer(http.Dir("."))
	log.Fatal(http.ListenAndServe(":8080", limit.Wrap(files)))
}
