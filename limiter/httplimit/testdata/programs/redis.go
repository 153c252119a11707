package main

import (
	"log"
	"net/http"
	"time"

	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/redisstore"
)

func main() {
	store, err := redisstore.Open("redis://127.0.0.1:6379", redisstore.Options{Namespace: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	limit := httplimit.PerIP(100, time.Minute, httplimit.WithStore(store), httplimit.WithTrustedProxies("10.0.0.0/8"))
	log.Fatal(http.ListenAndServe(":8080", limit.Wrap(http.FileServer(http.Dir(".")))))
}
