/* The native half of LifeJava.java, without jni.h: the environment and the class are only passed. */
#include "life.h"

void Java_LifeJava_begin(void *environment, void *class) {
    (void)environment, (void)class;
    life_start();
}

void Java_LifeJava_round(void *environment, void *class) {
    (void)environment, (void)class;
    life_current();
    life_round();
}
