go mod init example.com/shop
cat > oapi-codegen.yaml <<'END'
package: payments
output: payments/payments.go
generate: { models: true, client: true }
output-options: { skip-prune: true, exclude-tags: [Service] } # the types of notifications too; no pages
END
mkdir payments
go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml openapi.yaml
go get github.com/oapi-codegen/runtime@v1.8.0
go run . # main.go below
