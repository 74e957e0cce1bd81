import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

import org.apache.kafka.tools.reassign.ReassignPartitionsCommand;

/**
 * Runs kafka-reassign-partitions many times in one JVM, since a JVM for each run takes a second.
 *
 * <p>Each line on standard input is a run: its arguments, separated by blanks, each behind a "=" and
 * encoded as in a URL. Each line on standard output is its answer: the exit code, standard output
 * and standard error, separated by blanks and encoded likewise.
 */
public class ManyRuns {
    private static class Ended extends Error {
        final int code;

        Ended(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        throwOnExit();
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(run(words(line)));
            answers.flush();
        }
    }

    /** Lets Kafka's own Exit throw. Its class is not public, and 4.4 moved it to another package. */
    private static void throwOnExit() throws ReflectiveOperationException {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException before44) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object thrower =
                Proxy.newProxyInstance(
                        procedure.getClassLoader(),
                        new Class<?>[] {procedure},
                        (proxy, method, arguments) -> {
                            throw new Ended((Integer) arguments[0]);
                        });
        exit.getMethod("setExitProcedure", procedure).invoke(null, thrower);
    }

    private static String run(String[] words) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        PrintStream realErr = System.err;
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        int code = 0;
        try {
            ReassignPartitionsCommand.main(words);
        } catch (Ended ended) {
            code = ended.code;
        } catch (Throwable uncaught) { // reported as the JVM does it
            System.err.print("Exception in thread \"main\" ");
            uncaught.printStackTrace();
            code = 1;
        } finally {
            System.setErr(realErr);
        }
        return code + " =" + encoded(out) + " =" + encoded(err);
    }

    private static String[] words(String line) {
        List<String> words = new ArrayList<>();
        for (String word : line.split(" ")) {
            if (!word.isEmpty()) {
                words.add(URLDecoder.decode(word.substring(1), StandardCharsets.UTF_8));
            }
        }
        return words.toArray(new String[0]);
    }

    private static String encoded(ByteArrayOutputStream stream) {
        return URLEncoder.encode(stream.toString(StandardCharsets.UTF_8), StandardCharsets.UTF_8);
    }
}
