package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

func verify(secret, header string, rawBody []byte) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(rawBody)
	expected := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	return hmac.Equal([]byte(expected), []byte(header))
}

func main() {
	body, err := io.ReadAll(os.Stdin)
	if err == nil && verify(os.Args[1], os.Args[2], body) {
		fmt.Println("valid")
	} else {
		fmt.Println("invalid")
	}
}
