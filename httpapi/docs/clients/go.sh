go mod init example.com/shop
mkdir payments
go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -generate types,client -package payments -o payments/payments.go openapi.yaml
go get github.com/oapi-codegen/runtime@v1.8.0
go run . # main.go below
