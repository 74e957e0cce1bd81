import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.Base64;
import java.util.Collections;

/**
 * Writes each entry of a PKCS12 key store as NAME.pem (private key, then its certificate chain), and
 * the certificate of the entry "ca" as ca.pem. keytool itself cannot export private keys.
 *
 * <p>Usage: java PemFiles.java STORE FOLDER, with the password in STORE_PASSWORD.
 */
public class PemFiles {
    private static final Base64.Encoder LINES = Base64.getMimeEncoder(64, new byte[] {'\n'});

    public static void main(String[] arguments) throws Exception {
        char[] password = System.getenv("STORE_PASSWORD").toCharArray();
        Path folder = Path.of(arguments[1]);
        KeyStore store = KeyStore.getInstance(Path.of(arguments[0]).toFile(), password);
        for (String name : Collections.list(store.aliases())) {
            StringBuilder pem = new StringBuilder();
            if (!name.equals("ca")) {
                pem.append(block("PRIVATE KEY", store.getKey(name, password).getEncoded()));
            }
            for (Certificate certificate : store.getCertificateChain(name)) {
                pem.append(block("CERTIFICATE", certificate.getEncoded()));
            }
            Path file = folder.resolve(name + ".pem");
            Files.createFile(file, PosixFilePermissions.asFileAttribute(
                    PosixFilePermissions.fromString("rw-------")));
            Files.writeString(file, pem);
        }
    }

    private static String block(String kind, byte[] content) {
        return "-----BEGIN " + kind + "-----\n" + LINES.encodeToString(content)
                + "\n-----END " + kind + "-----\n";
    }
}
