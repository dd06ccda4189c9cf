/** A Java program with a signal handler of its own, that computes from several threads. */
public class LifeJava {
    static native void begin();

    static native void round();

    static volatile int received;

    public static void main(String[] arguments) throws Exception {
        System.load(arguments[0]);
        sun.misc.Signal usr1 = new sun.misc.Signal("USR1");
        sun.misc.Signal.handle(usr1, signal -> received++);
        begin();
        for (int turn = 0; turn < 3; turn++) {
            for (int i = 0; i < 50; i++) {
                int before = received;
                sun.misc.Signal.raise(usr1);
                while (received == before) Thread.sleep(0, 100_000);
            }
            Thread thread = new Thread(LifeJava::round);
            thread.start();
            thread.join();
            System.gc();
        }
        System.out.println(received);
        System.out.println("ok");
    }
}
