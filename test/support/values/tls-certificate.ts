/** Certificates and keys for tests only, and the authority that signed the first; most are valid until 2120. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The PEM certificate of the authority, which clients must trust. */
export const testAuthority = `-----BEGIN CERTIFICATE-----
MIIBezCCASCgAwIBAgIUCbPY728U2rxcW+N+mWe5c5OAT1YwCgYIKoZIzj0EAwIw
IjEgMB4GA1UEAwwXUmFuZ2V3YXkgdGVzdCBhdXRob3JpdHkwIBcNMjAwMTAxMDAw
MDAwWhgPMjEyMDAxMDEwMDAwMDBaMCIxIDAeBgNVBAMMF1Jhbmdld2F5IHRlc3Qg
YXV0aG9yaXR5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEPzET3HJlL26TRxQC
wUM1Jr6OKB22nOgnIPSuagKy86Ri0I4Gy8AHk2F34e2ream5m7gyrTcRk4SIOe2a
BRHdZ6MyMDAwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQUfRqDagOiuFn9nCWJ
kZa1y2urPfswCgYIKoZIzj0EAwIDSQAwRgIhAOJipm38tISwKuhueWT1qJZZWjfp
a93NVVlyU45sWH3YAiEApD6faAX47AQjz291zeSANJD7PTsZGaU3GYA7oVJaQSI=
-----END CERTIFICATE-----
`;

/** A server's PEM key and certificate, for localhost, *.example.org, 127.0.0.1 and ::1. */
export const testCertificate = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgjE6QBeMNAG/zyZcb
aAjDEfftSoiEpko20/8DfR+ozuGhRANCAAQZ6g+08XZ9eQu6QYQS5MOZ8TMzom36
trEKeT1DfMCRmUsvGbs0Abk4KIpxupQDfhVo/x1jtyczrj0tfPZUkPGS
-----END PRIVATE KEY-----
`,
  cert: `-----BEGIN CERTIFICATE-----
MIIB2zCCAYGgAwIBAgIUBfZydwRYFsQNr8zWrf/s+tm1s3QwCgYIKoZIzj0EAwIw
IjEgMB4GA1UEAwwXUmFuZ2V3YXkgdGVzdCBhdXRob3JpdHkwIBcNMjAwMTAxMDAw
MDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMMCWxvY2FsaG9zdDBZMBMG
ByqGSM49AgEGCCqGSM49AwEHA0IABBnqD7Txdn15C7pBhBLkw5nxMzOibfq2sQp5
PUN8wJGZSy8ZuzQBuTgoinG6lAN+FWj/HWO3JzOuPS189lSQ8ZKjgaAwgZ0wOwYD
VR0RBDQwMoIJbG9jYWxob3N0gg0qLmV4YW1wbGUub3JnhwR/AAABhxAAAAAAAAAA
AAAAAAAAAAABMAkGA1UdEwQCMAAwEwYDVR0lBAwwCgYIKwYBBQUHAwEwHQYDVR0O
BBYEFG3QBydXGPwvKGW86wGojnJpcSpbMB8GA1UdIwQYMBaAFH0ag2oDorhZ/Zwl
iZGWtctrqz37MAoGCCqGSM49BAMCA0gAMEUCIFmUlYtnKMpfSmTwXROVx2Ql7SIw
0q3i2agw4mlJO7jgAiEA7RO7twbjObugr2PBlb2tPhC8FdaZ8/Z7PQqikcWtZsk=
-----END CERTIFICATE-----
`,
};

/** A key and a self-signed certificate for Exact.example.org (which *.example.org matches too) and for a Punycode name. */
export const exactCertificate = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg300M/1MDZw58cfJ2
rKA6oF6BZGIEvYrKXWqMIEOzVCChRANCAAT33NskoPgCmQh6MwogAPFyPyX3kaGq
XM6dCfY/9F2F8BKz5fnxJJnmITholSLSjr60fFv36UBVBHAwkuB3jB2k
-----END PRIVATE KEY-----
`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIBATAKBggqhkjOPQQDAjAQMQ4wDAYDVQQDDAVleGFjdDAg
Fw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowEDEOMAwGA1UEAwwFZXhh
Y3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAT33NskoPgCmQh6MwogAPFyPyX3
kaGqXM6dCfY/9F2F8BKz5fnxJJnmITholSLSjr60fFv36UBVBHAwkuB3jB2ko2Qw
YjAzBgNVHREELDAqghFFeGFjdC5leGFtcGxlLm9yZ4IVeG4tLWJjaGVyLWt2YS5l
eGFtcGxlMAwGA1UdEwEB/wQCMAAwHQYDVR0OBBYEFEHRlW4Zens3vi1V/1P/lwEU
Y11rMAoGCCqGSM49BAMCA0gAMEUCIBemGNddzX4psqxeNgRm2HLhbJ3RDOcEObLD
vNebl2NmAiEA0BrwmfEnCuTYPd33eBUd8ncOWN2QYyDE7DQwssqt6xM=
-----END CERTIFICATE-----
`,
};

/** A key and a self-signed certificate for localhost that expired in 2021. */
export const expiredCertificate = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgiioUhOOYIHNzaJum
CWBCKTMvpK9QCv6fei/RI0iFO2mhRANCAARBIrw9cikqPiBFpcSEtrySIHHCLBy+
FvebZ/P7J8uTb6YEWX9GUIB4GSVjpbEC2zbO0F06I7JUmWU2pmwI3gr2
-----END PRIVATE KEY-----
`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBVzCB/qADAgECAgECMAoGCCqGSM49BAMCMBIxEDAOBgNVBAMMB2V4cGlyZWQw
HhcNMjAwMTAxMDAwMDAwWhcNMjEwMTAxMDAwMDAwWjASMRAwDgYDVQQDDAdleHBp
cmVkMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEQSK8PXIpKj4gRaXEhLa8kiBx
wiwcvhb3m2fz+yfLk2+mBFl/RlCAeBklY6WxAts2ztBdOiOyVJllNqZsCN4K9qNF
MEMwFAYDVR0RBA0wC4IJbG9jYWxob3N0MAwGA1UdEwEB/wQCMAAwHQYDVR0OBBYE
FIuO141oDKsu4BwUXKVAT7kHEJ+zMAoGCCqGSM49BAMCA0gAMEUCIQDiQXz+m3/q
7IhtGxsJVFQKXXBiDCldSvif8s53TpKLgwIgag9qCFJW3tNZokV1e0ioRqjCb1G1
/jlM3uYrl3v1pAQ=
-----END CERTIFICATE-----
`,
};

/** Writes a key and a certificate to files in a directory, and returns the paths. */
export async function writeTestCertificate(
  dir: string,
  name = 'server',
  { key, cert }: typeof testCertificate = testCertificate,
): Promise<{ readonly certFile: string; readonly keyFile: string }> {
  const files = { certFile: join(dir, `${name}.pem`), keyFile: join(dir, `${name}.key`) };
  await writeFile(files.certFile, cert);
  await writeFile(files.keyFile, key, { mode: 0o600 });
  return files;
}

/** A client's PEM key and self-signed certificate. */
export const testClientCertificate = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgARYXi+DrvS95IjCA
OWhj3/el8HyBBgThpK2tgj7XUjGhRANCAARXBEBQIKGnUVIjqxCZingtzVrBgnCN
tT0aUyxI13o0W4NVBadk/GMeGD6YFnME2+8DP2+tofaTmuEYr4p2xxWO
-----END PRIVATE KEY-----
`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBdjCCARygAwIBAgIBATAKBggqhkjOPQQDAjAfMR0wGwYDVQQDDBRSYW5nZXdh
eSB0ZXN0IGNsaWVudDAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFow
HzEdMBsGA1UEAwwUUmFuZ2V3YXkgdGVzdCBjbGllbnQwWTATBgcqhkjOPQIBBggq
hkjOPQMBBwNCAARXBEBQIKGnUVIjqxCZingtzVrBgnCNtT0aUyxI13o0W4NVBadk
/GMeGD6YFnME2+8DP2+tofaTmuEYr4p2xxWOo0cwRTAPBgNVHRMBAf8EBTADAQH/
MBMGA1UdJQQMMAoGCCsGAQUFBwMCMB0GA1UdDgQWBBS79gk5KHyLyjXljdS1otSj
pTIoijAKBggqhkjOPQQDAgNIADBFAiEAlcJp7LcQaC8sfWxpTFX2zUm2phK0wxNu
xOwoFDVh/vQCIErreuTJDDlsfcrZn8m+Ij7YwQPG9uHA88Pz360jbHec
-----END CERTIFICATE-----
`,
};
