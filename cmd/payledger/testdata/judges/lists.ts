// Compiles only if a client made with the generators' defaults types what is in a list.
import createClient from "openapi-fetch";
import type { paths } from "./payments.js";

const api = createClient<paths>({});
export const lists = async (): Promise<(string | undefined)[]> => [
  (await api.GET("/v1/payments")).data?.data[0]?.amount,
  (await api.GET("/v1/refunds")).data?.data[0]?.amount,
  (await api.GET("/v1/balance/statement")).data?.data[0]?.balance,
  (await api.GET("/")).data?.api,
];
